#include "runtime/healing/cluster.h"

#include <algorithm>
#include <iterator>

namespace ucp {

double Worth(const Task& task, std::int64_t nodes) {
  if (nodes < task.least_nodes || task.speeds.empty()) return 0;
  const auto most = std::min(static_cast<std::size_t>(nodes) + 1, task.speeds.size());
  return task.weight * *std::max_element(task.speeds.begin(), task.speeds.begin() + static_cast<std::ptrdiff_t>(most));
}

double TransitionSeconds(const Task& task, std::int64_t from, std::int64_t to, bool is_hit, double network) {
  const std::map<std::int64_t, std::string>& laid_out = task.layouts.strategies;
  const auto before = laid_out.upper_bound(from);
  const auto after = laid_out.upper_bound(to);
  if (before != laid_out.begin() && after != laid_out.begin()) {
    const auto planned = task.moved.find({std::prev(before)->first, std::prev(after)->first, is_hit});
    if (planned != task.moved.end()) return task.restart_seconds + planned->second / network;
  }
  const std::int64_t fewest = std::max<std::int64_t>(1, std::min(from, to));
  return task.restart_seconds + task.state_bytes / static_cast<double>(fewest) / network;
}

double LongestTransition(const Task& task, double network) {
  double longest = TransitionSeconds(task, 1, 1, false, network);
  for (const auto& [change, bytes] : task.moved) longest = std::max(longest, task.restart_seconds + bytes / network);
  return longest;
}

double Reward(const Cluster& cluster, const Task& task, std::int64_t to, std::int64_t nodes, bool is_hit) {
  const double worth = Worth(task, to);
  if (to == task.nodes && !is_hit) return worth;
  const double failures_a_second = static_cast<double>(nodes) / cluster.node_mtbf;
  const double seconds = TransitionSeconds(task, task.nodes, to, is_hit, cluster.network);
  return worth - Worth(task, task.nodes) * seconds * failures_a_second;
}

}  // namespace ucp
