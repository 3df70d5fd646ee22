// Tells the caller how far the work is, at most a few times a second.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

#include "runtime/engine/engine_options.h"

namespace ucp {

// Shared by all threads.
class ProgressTeller {
 public:
  using Tell = std::function<void(const ExecutionProgress&)>;

  // `tell`, which must outlive this, may be empty. `files`: how many there are to be written.
  ProgressTeller(const Tell& tell, std::uint64_t bytes, std::uint64_t files)
      : tell_(tell), bytes_(bytes), files_(files) {}

  void BeginWith(std::uint64_t bytes) { done_ = bytes; }  // The work of an earlier run.

  // `files_done`: of all.
  void Add(std::uint64_t bytes, std::uint64_t files_done) {
    done_ += bytes;
    if (!tell_) return;
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || Clock::now() - last_told_ < std::chrono::milliseconds(100)) return;
    tell_({done_, bytes_, files_done, files_});
    last_told_ = Clock::now();
  }

  void TellEnd() {
    if (tell_) tell_({done_, bytes_, files_, files_});
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Tell& tell_;
  const std::uint64_t bytes_;
  const std::uint64_t files_;
  std::atomic<std::uint64_t> done_ = 0;
  std::mutex mutex_;  // Protects what follows, and makes one call at a time.
  Clock::time_point last_told_;
};

}  // namespace ucp
