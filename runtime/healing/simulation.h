// A cluster over a virtual clock: the ladder (ladder.h) and the allocations (allocation.h) answer the failures of a
// trace, beside what is done without them. Only time, failures and speeds are made up.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/healing/cluster.h"
#include "runtime/healing/ladder.h"
#include "runtime/healing/trace.h"

namespace ucp {

enum class HealingPolicy {
  kUcp,      // Failures are found at once and answered by the ladder, the cluster is planned anew, state is in memory.
  kOwn,      // The same, but only the task that was hit changes: it continues on one node less, until that is back.
  kRestart,  // By hand: after a timeout, from storage, on the nodes that are left.
  kWait,     // By hand, and a task that lost a node waits until it is repaired.
};

inline constexpr std::array<std::pair<std::string_view, HealingPolicy>, 4> kHealingPolicies = {
    {{"ucp", HealingPolicy::kUcp},
     {"own", HealingPolicy::kOwn},
     {"restart", HealingPolicy::kRestart},
     {"wait", HealingPolicy::kWait}}};

struct SimulatedMoment {
  double at = 0;
  std::int64_t nodes = 0;  // That work.
  double flops = 0;        // The weighted FLOP/s of all tasks, from here on.
};

struct Simulation {
  std::vector<SimulatedMoment> moments;
  double flop = 0;                           // The weighted FLOP of all tasks together.
  double ideal = 0;                          // Without failures.
  double down = 0;                           // Seconds that tasks were stopped, of all tasks together.
  std::int64_t ignored = 0;                  // Failures of nodes that were away.
  std::array<std::int64_t, 5> answers = {};  // By Answer.
};

// Begins with the nodes that the tasks have; if none has any, with the best allocation. Nodes of the trace must be
// those of the cluster.
Simulation Simulate(const Cluster& cluster, const FailureTrace& trace, HealingPolicy policy);

}  // namespace ucp
