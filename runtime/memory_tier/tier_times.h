// How long copies in the memory of other machines take, how often they can be made, and the time that a failure loses:
// Gemini (SOSP '23), section 3.1 (wasted time) and section 5 (checkpoint traffic in idle spans).
#pragma once

#include <cstdint>
#include <optional>

namespace ucp {

// The part of the idle time that is counted on: spans vary from one iteration to the next.
inline constexpr double kUsedIdleTime = 0.8;

struct TierRequest {
  double bytes = 0;    // Of each machine's state.
  double network = 0;  // Of each machine, in bytes a second.
  std::int64_t machines = 1;
  std::int64_t copies = 2;              // Of each state, the machine's own included.
  std::optional<double> iteration;      // In seconds.
  std::optional<double> idle;           // Of the network, in seconds of each iteration.
  std::optional<double> storage;        // Of all machines together, in bytes a second.
  double storage_period = 3 * 60 * 60;  // Between two checkpoints on storage as people make them.
};

// The average time that a failure costs, in seconds: what was computed since the newest complete version was begun, and
// fetching that.
struct LostTime {
  double making = 0;    // Of a version, until it is complete.
  double period = 0;    // From one version to the next.
  double fetching = 0;  // Of the newest one.
  double seconds() const { return making + period / 2 + fetching; }
};

struct TierTimes {
  double sending = 0;                    // Of all copies of one version, in seconds: copies - 1 states.
  std::optional<std::int64_t> interval;  // In iterations; nothing without `iteration`.
  // Nothing without `iteration`; those of storage nothing without `storage`.
  std::optional<LostTime> own_memory;      // All machines are there: nothing is fetched.
  std::optional<LostTime> others_memory;   // A machine is replaced, which fetches its state from another one's memory.
  std::optional<LostTime> storage_often;   // A checkpoint after the other, as fast as storage takes them.
  std::optional<LostTime> storage_seldom;  // One each `storage_period`.
};

TierTimes TimesOf(const TierRequest& request);

}  // namespace ucp
