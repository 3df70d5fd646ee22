#include "runtime/memory_tier/tier_times.h"

#include <algorithm>
#include <cmath>

namespace ucp {

TierTimes TimesOf(const TierRequest& request) {
  TierTimes times;
  const double once = request.bytes / request.network;
  times.sending = static_cast<double>(request.copies - 1) * once;
  if (!request.iteration) return times;
  const double idle = request.idle ? kUsedIdleTime * *request.idle : *request.iteration;
  times.interval = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(times.sending / idle)));
  const double period = static_cast<double>(*times.interval) * *request.iteration;
  // A version is of the end of one iteration, and its copies are spread over the iterations up to the next version.
  times.own_memory = LostTime{period, period, 0};
  times.others_memory = LostTime{period, period, once};
  if (!request.storage) return times;
  const double to_storage = request.bytes * static_cast<double>(request.machines) / *request.storage;
  const double rounds = std::ceil(to_storage / *request.iteration);
  times.storage_often = LostTime{to_storage, rounds * *request.iteration, to_storage};
  times.storage_seldom = LostTime{to_storage, std::max(request.storage_period, to_storage), to_storage};
  return times;
}

}  // namespace ucp
