// Times of the tables of a large cluster (runtime/healing/allocation.h): 50 tasks on 1,000 nodes, made once and looked
// into many times. Prints two lines, with seconds of the processor.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

#include "runtime/healing/allocation.h"

namespace {

double SecondsSince(std::clock_t begin) { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }

ucp::Task MadeUp(std::mt19937_64& random, std::size_t number, std::int64_t nodes) {
  std::uniform_real_distribution<double> part(0, 1);
  ucp::Task task{.name = fmt::format("task-{}", number),
                 .weight = 0.5 + 1.5 * part(random),
                 .least_nodes = 1 + static_cast<std::int64_t>(random() % 8),
                 .restart_seconds = 60,
                 .state_bytes = 1e12,
                 .nodes = nodes};
  for (int k = 0; k <= 1001; ++k) task.speeds.push_back(std::pow(k, 0.9) * (0.9 + 0.2 * part(random)));
  return task;
}

}  // namespace

int main() {
  std::mt19937_64 random(50);
  ucp::Cluster cluster{.nodes = 1000, .node_mtbf = 66.0 * 24 * 60 * 60, .network = 50e9};
  for (std::size_t i = 0; i < 50; ++i) cluster.tasks.push_back(MadeUp(random, i, 20));
  cluster.starts.push_back(MadeUp(random, 50, 0));
  const std::clock_t begin = std::clock();
  const ucp::NextAllocations tables(cluster);
  fmt::print("tables of 50 tasks on 1,000 nodes  {:.3f} s\n", SecondsSince(begin));
  constexpr int kLooks = 10'000'000;
  std::int64_t sum = 0;
  const std::clock_t looking = std::clock();
  for (int look = 0; look < kLooks; ++look) {
    sum += tables.After({ucp::ClusterEvent::kNodeLost, random() % 50}).nodes[random() % 50];
  }
  fmt::print("a look into them                   {:.3f} us\n", SecondsSince(looking) / kLooks * 1e6);
  return sum > 0 ? 0 : 1;
}
