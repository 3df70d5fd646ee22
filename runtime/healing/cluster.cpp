#include "runtime/healing/cluster.h"

#include <algorithm>

namespace ucp {

double Worth(const Task& task, std::int64_t nodes) {
  if (nodes < task.least_nodes || task.speeds.empty()) return 0;
  const auto most = std::min(static_cast<std::size_t>(nodes) + 1, task.speeds.size());
  return task.weight * *std::max_element(task.speeds.begin(), task.speeds.begin() + static_cast<std::ptrdiff_t>(most));
}

double TransitionSeconds(const Task& task, std::int64_t from, std::int64_t to, double network) {
  const std::int64_t fewest = std::max<std::int64_t>(1, std::min(from, to));
  return task.restart_seconds + task.state_bytes / static_cast<double>(fewest) / network;
}

double Reward(const Cluster& cluster, const Task& task, std::int64_t to, std::int64_t nodes, bool is_hit) {
  const double worth = Worth(task, to);
  if (to == task.nodes && !is_hit) return worth;
  const double failures_a_second = static_cast<double>(nodes) / cluster.node_mtbf;
  return worth - Worth(task, task.nodes) * TransitionSeconds(task, task.nodes, to, cluster.network) * failures_a_second;
}

}  // namespace ucp
