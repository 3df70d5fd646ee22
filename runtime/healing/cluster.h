// The tasks of a cluster, as data: what each is worth on how many nodes, and what moving it costs (Unicron, Alibaba
// 2023, section 5). A node is the unit: one machine, all of its GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ucp {

// How the state of a task is cut on so many nodes: what a change of their number moves can be planned from that.
struct TaskLayouts {
  std::string spec = {};                                // As SPEC of `ucpc plan`, its --config, and its --set.
  std::string config = {};                              //
  std::vector<std::string> set = {};                    //
  std::map<std::int64_t, std::string> strategies = {};  // By the number of nodes.
  std::int64_t copies = 2;                              // Of the state of each node, its own included.
};

// A change between two numbers of nodes of TaskLayouts::strategies.
struct Change {
  std::int64_t from = 0;  // 0: it did not run, and its state comes from storage.
  std::int64_t to = 0;
  bool loses_node = false;  // One of those before.
  auto operator<=>(const Change&) const = default;
};

struct Task {
  std::string name = {};
  double weight = 1;  // The worth of one of its FLOP, against those of others.
  std::int64_t least_nodes = 1;
  bool may_pause = false;           // It may be left without nodes. Otherwise `least_nodes` is a promise.
  std::vector<double> speeds = {};  // FLOP/s by the number of nodes, from 0 on. More nodes than that add nothing.
  double restart_seconds = 0;       // To stop, start, and reach the first iteration.
  double state_bytes = 0;           // Of all of its nodes together.
  std::int64_t nodes = 0;           // Now.
  std::int64_t laid_out = 0;        // Those of its layout, where several of them were lost together; 0: `nodes`.
  TaskLayouts layouts = {};
  std::map<Change, double> moved = {};  // The bytes of the node that sends or receives most, by PlanTransitions().
};

struct Cluster {
  std::int64_t nodes = 0;
  double node_mtbf = 0;  // The mean time between two failures of one node, in seconds.
  double network = 0;    // Of each node, in bytes a second.
  std::vector<Task> tasks = {};
  std::vector<Task> starts = {};  // That may begin, each on no node so far.
};

// F: the weighted FLOP/s of a task on so many nodes. A task may leave some of them idle; nothing below `least_nodes`.
double Worth(const Task& task, std::int64_t nodes);

// D_tr: the time from the stop on `from` nodes to the first iteration on `to`; with `is_hit`, one of `from` is lost.
// All nodes send and receive at the same time: the planned bytes of the busiest one, between the layouts of the largest
// numbers of nodes that have one and are not above `from` and `to`. Below `least_nodes` the task has no layout: what
// comes from there comes from storage, and nothing moves there. Without layouts it is an estimate: a node's share of
// the state, which is largest where there are fewest nodes.
double TransitionSeconds(const Task& task, std::int64_t from, std::int64_t to, bool is_hit, double network);

// The longest of all transitions of a task that can happen on up to `nodes` nodes.
double LongestTransition(const Task& task, std::int64_t nodes, double network);

// How many plans between two layouts the tasks of the cluster need.
std::size_t CountPlans(const Cluster& cluster);

// G / D_run: the worth of `to` nodes, less what the transition costs until the next failure of one of `nodes` nodes.
// `is_hit`: a node of the task failed, so that it stops even if it keeps its number of nodes.
double Reward(const Cluster& cluster, const Task& task, std::int64_t to, std::int64_t nodes, bool is_hit);

// The least number of nodes that the task must have.
inline std::int64_t Promise(const Task& task) { return task.may_pause ? 0 : task.least_nodes; }

}  // namespace ucp
