// Tells the caller how far the work is, at most a few times a second.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "runtime/executor/execute.h"

namespace ucp {

// Shared by all threads.
class ProgressTeller {
 public:
  ProgressTeller(const ExecutionOptions& options, std::uint64_t total) : options_(options), total_(total) {}

  void Add(std::uint64_t bytes) {
    done_ += bytes;
    if (!options_.progress) return;
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || Clock::now() - last_told_ < std::chrono::milliseconds(100)) return;
    options_.progress({done_, total_});
    last_told_ = Clock::now();
  }

  void TellEnd() {
    if (options_.progress) options_.progress({done_, total_});
  }

 private:
  using Clock = std::chrono::steady_clock;

  const ExecutionOptions& options_;
  const std::uint64_t total_;
  std::atomic<std::uint64_t> done_ = 0;
  std::mutex mutex_;  // Protects what follows, and makes one call at a time.
  Clock::time_point last_told_;
};

}  // namespace ucp
