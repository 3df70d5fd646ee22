// How many nodes each task gets: the best sum of rewards (cluster.h) under the promises of the tasks, by dynamic
// programming over tasks and nodes, and the same for everything that can happen next, made ahead.
//
//   S(i, j) = max over k = 0 … j of S(i-1, j-k) + G(t_i, k),   S(0, j) = 0
//
// Sums are of integers, 2^-44 of the largest worth each, so that they do not depend on the order. Of equal allocations,
// and of those that differ by less than 2^-33, one that moves the fewest tasks is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/healing/cluster.h"

namespace ucp {

enum class ClusterEvent {
  kNothing,     // The best for the cluster as it is.
  kNodeLost,    // A node of task `task`.
  kSpareLost,   // A node that no task has.
  kNodeJoins,   //
  kTaskEnds,    // Task `task`.
  kTaskStarts,  // `starts[task]`.
};

struct NextEvent {
  ClusterEvent kind = ClusterEvent::kNothing;
  std::size_t task = 0;
};

struct Allocation {
  std::vector<std::int64_t> nodes;  // By task; one that starts is behind them.
  // Promises do not fit on the nodes that are left: these tasks wait, those of the lowest weight first, and of equal
  // ones the last. One that starts waits before all others.
  std::vector<std::size_t> waiting;
  std::int64_t score = 0;  // The sum that was maximised. Only allocations for one event of one cluster compare.
};

// Needs `nodes` of the tasks to be at most those of the cluster; with kSpareLost, fewer.
Allocation BestAllocation(const Cluster& cluster, const NextEvent& event);

// The worth of an allocation after the event: the sum of its tasks' F.
double WorthOf(const Cluster& cluster, const NextEvent& event, const Allocation& allocation);

// All allocations for one step, in the time of few. With S from the front and S' from the back, the best of all other
// tasks than i is max over a of S(i-1, a) + S'(i+1, j-a); so all of them together take O(m n^2), as one does.
class NextAllocations {
 public:
  explicit NextAllocations(const Cluster& cluster);

  const Allocation& After(const NextEvent& event) const;

 private:
  Allocation now_;
  Allocation spare_lost_;
  Allocation node_joins_;
  std::vector<Allocation> node_lost_;
  std::vector<Allocation> task_ends_;
  std::vector<Allocation> task_starts_;
};

}  // namespace ucp
