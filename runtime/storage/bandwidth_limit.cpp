#include "runtime/storage/bandwidth_limit.h"

#include <algorithm>
#include <thread>

namespace ucp {

BandwidthLimit::Clock::time_point BandwidthLimit::Reserve(std::uint64_t bytes, Clock::time_point now) {
  const std::chrono::duration<double> stretch(static_cast<double>(bytes) / bytes_per_second_);
  std::lock_guard lock(mutex_);
  const Clock::time_point begin = std::max(free_from_, now);
  free_from_ = begin + std::chrono::duration_cast<Clock::duration>(stretch);
  return begin;
}

void BandwidthLimit::Wait(std::uint64_t bytes) {
  // Longer naps would let an interrupt wait.
  constexpr std::chrono::milliseconds kNap(50);
  const Clock::time_point begin = Reserve(bytes, Clock::now());
  for (Clock::time_point now = Clock::now(); now < begin; now = Clock::now()) {
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) return;
    std::this_thread::sleep_for(std::min<Clock::duration>(begin - now, kNap));
  }
}

}  // namespace ucp
