#include "runtime/healing/cluster.h"

#include <algorithm>
#include <iterator>

namespace ucp {
namespace {

// The number of nodes whose strategy a task has on `nodes`; 0: it does not run there.
std::int64_t LayoutOn(const Task& task, std::int64_t nodes) {
  if (nodes < task.least_nodes) return 0;
  const auto above = task.layouts.strategies.upper_bound(nodes);
  return above == task.layouts.strategies.begin() ? 0 : std::prev(above)->first;
}

}  // namespace

double Worth(const Task& task, std::int64_t nodes) {
  if (nodes < task.least_nodes || task.speeds.empty()) return 0;
  const auto most = std::min(static_cast<std::size_t>(nodes) + 1, task.speeds.size());
  return task.weight * *std::max_element(task.speeds.begin(), task.speeds.begin() + static_cast<std::ptrdiff_t>(most));
}

double TransitionSeconds(const Task& task, std::int64_t from, std::int64_t to, bool is_hit, double network) {
  if (!task.moved.empty()) {
    const std::int64_t before = LayoutOn(task, from);
    const std::int64_t after = LayoutOn(task, to);
    if (after == 0) return task.restart_seconds;
    return task.restart_seconds + task.moved.at({before, after, is_hit && before > 0}) / network;
  }
  const std::int64_t fewest = std::max<std::int64_t>(1, std::min(from, to));
  return task.restart_seconds + task.state_bytes / static_cast<double>(fewest) / network;
}

double LongestTransition(const Task& task, std::int64_t nodes, double network) {
  if (task.moved.empty()) return TransitionSeconds(task, 1, 1, false, network);
  const std::int64_t fewest = LayoutOn(task, task.least_nodes);
  const auto can_be = [&](std::int64_t layout) { return layout == 0 || (layout >= fewest && layout <= nodes); };
  double most = 0;
  for (const auto& [change, bytes] : task.moved) {
    if (can_be(change.from) && can_be(change.to)) most = std::max(most, bytes);
  }
  return task.restart_seconds + most / network;
}

std::size_t CountPlans(const Cluster& cluster) {
  std::size_t plans = 0;
  for (const std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (const Task& task : *tasks) plans += task.layouts.strategies.size() * task.layouts.strategies.size();
  }
  return plans;
}

double Reward(const Cluster& cluster, const Task& task, std::int64_t to, std::int64_t nodes, bool is_hit) {
  const double worth = Worth(task, to);
  if (to == task.nodes && !is_hit) return worth;
  const double failures_a_second = static_cast<double>(nodes) / cluster.node_mtbf;
  const std::int64_t from = std::max(task.nodes, task.laid_out);
  const double seconds = TransitionSeconds(task, from, to, is_hit, cluster.network);
  return worth - Worth(task, task.nodes) * seconds * failures_a_second;
}

}  // namespace ucp
