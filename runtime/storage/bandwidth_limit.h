// A bound on the bytes that all threads together read and write in a second, for storage that others use too.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace ucp {

// Each move is given a stretch of time as long as its bytes take at the bound, behind those before it, and waits until
// its stretch begins. Nothing is saved up while nobody moves anything. Shared by all threads.
class BandwidthLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // `cancelled` ends every wait; it may be null.
  BandwidthLimit(std::uint64_t bytes_per_second, const std::atomic<bool>* cancelled)
      : bytes_per_second_(static_cast<double>(bytes_per_second)), cancelled_(cancelled) {}

  // Waits until `bytes` may be moved.
  void Wait(std::uint64_t bytes);

  // When a move that is asked for at `now` may begin.
  Clock::time_point Reserve(std::uint64_t bytes, Clock::time_point now);

 private:
  const double bytes_per_second_;
  const std::atomic<bool>* cancelled_;
  std::mutex mutex_;
  Clock::time_point free_from_;  // Protected by it: the end of the last stretch.
};

}  // namespace ucp
