#include "runtime/healing/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

namespace ucp {
namespace {

using ::testing::ElementsAre;

constexpr double kDaySeconds = 24 * 60 * 60;

// Every way to give so many nodes to the tasks.
void EveryWay(std::size_t tasks, std::int64_t nodes, std::vector<std::int64_t>& given,
              const std::function<void()>& visit) {
  if (given.size() == tasks) {
    visit();
    return;
  }
  for (std::int64_t k = 0; k <= nodes; ++k) {
    given.push_back(k);
    EveryWay(tasks, nodes - k, given, visit);
    given.pop_back();
  }
}

Cluster RandomCluster(std::mt19937_64& random, std::size_t tasks, std::int64_t nodes) {
  std::uniform_real_distribution<double> part(0, 1);
  Cluster cluster{
      .nodes = nodes, .node_mtbf = (1 + 60 * part(random)) * kDaySeconds, .network = 1e9, .tasks = {}, .starts = {}};
  std::int64_t left = nodes;
  for (std::size_t i = 0; i <= tasks; ++i) {
    Task task{.name = std::to_string(i),
              .weight = 0.5 + part(random),
              .may_pause = random() % 3 == 0,
              .speeds = {0},
              .restart_seconds = 1000 * part(random),
              .state_bytes = 1e12 * part(random)};
    for (std::int64_t k = 1; k <= nodes; ++k)
      task.speeds.push_back(random() % 4 == 0 ? 0 : part(random) * static_cast<double>(k));
    task.least_nodes = 1 + static_cast<std::int64_t>(random() % 2);
    task.nodes = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(left + 1));
    left -= task.nodes;
    (i < tasks ? cluster.tasks : cluster.starts).push_back(task);
  }
  cluster.starts.front().nodes = 0;
  return cluster;
}

std::vector<NextEvent> EveryEvent(const Cluster& cluster) {
  std::vector<NextEvent> events = {{ClusterEvent::kNothing}, {ClusterEvent::kSpareLost}, {ClusterEvent::kNodeJoins}};
  for (std::size_t i = 0; i < cluster.tasks.size(); ++i) {
    events.push_back({ClusterEvent::kNodeLost, i});
    events.push_back({ClusterEvent::kTaskEnds, i});
  }
  for (std::size_t i = 0; i < cluster.starts.size(); ++i) events.push_back({ClusterEvent::kTaskStarts, i});
  return events;
}

// The tasks after an event, and how many nodes there are.
struct After {
  std::vector<Task> tasks;
  std::int64_t nodes;
  std::int64_t promised = 0;
};

After Expected(const Cluster& cluster, const NextEvent& event) {
  After after{cluster.tasks, cluster.nodes};
  if (event.kind == ClusterEvent::kNodeLost || event.kind == ClusterEvent::kSpareLost) --after.nodes;
  if (event.kind == ClusterEvent::kNodeJoins) ++after.nodes;
  if (event.kind == ClusterEvent::kTaskEnds) after.tasks[event.task] = Task{.may_pause = true, .speeds = {0}};
  if (event.kind == ClusterEvent::kTaskStarts) after.tasks.push_back(cluster.starts[event.task]);
  for (const Task& task : after.tasks) after.promised += task.may_pause ? 0 : task.least_nodes;
  return after;
}

// Sum of the rewards; nothing if a promise is broken.
std::optional<double> RewardOf(const Cluster& cluster, const After& after, const NextEvent& event,
                               const std::vector<std::int64_t>& given) {
  double sum = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Task& task = after.tasks[i];
    if (!task.may_pause && given[i] < task.least_nodes) return std::nullopt;
    sum += Reward(cluster, task, given[i], after.nodes, event.kind == ClusterEvent::kNodeLost && event.task == i);
  }
  return sum;
}

TEST(AllocationTest, IsTheBestOfAll) {
  std::mt19937_64 random(33);
  for (int round = 0; round < 150; ++round) {
    const std::size_t tasks = 1 + random() % 4;
    const Cluster cluster = RandomCluster(random, tasks, 2 + static_cast<std::int64_t>(random() % 7));
    for (const NextEvent& event : EveryEvent(cluster)) {
      const After after = Expected(cluster, event);
      if (after.promised > after.nodes) continue;
      std::optional<double> best;
      std::vector<std::int64_t> given;
      EveryWay(after.tasks.size(), after.nodes, given, [&] {
        if (const std::optional<double> reward = RewardOf(cluster, after, event, given))
          best = std::max(best.value_or(*reward), *reward);
      });
      const Allocation found = BestAllocation(cluster, event);
      const std::optional<double> reward = RewardOf(cluster, after, event, found.nodes);
      ASSERT_TRUE(reward.has_value());
      ASSERT_LE(std::accumulate(found.nodes.begin(), found.nodes.end(), std::int64_t{0}), after.nodes);
      EXPECT_NEAR(*reward, *best, 1e-7) << "round " << round;
      EXPECT_TRUE(found.waiting.empty());
    }
  }
}

TEST(AllocationTest, TablesAreThePlansFromScratch) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const Cluster cluster = RandomCluster(random, 1 + random() % 8, 2 + static_cast<std::int64_t>(random() % 30));
    const NextAllocations tables(cluster);
    for (const NextEvent& event : EveryEvent(cluster)) {
      const Allocation& found = tables.After(event);
      const Allocation scratch = BestAllocation(cluster, event);
      EXPECT_EQ(found.score, scratch.score) << "round " << round << ", event " << static_cast<int>(event.kind);
      EXPECT_EQ(found.waiting, scratch.waiting);
      EXPECT_NEAR(WorthOf(cluster, event, found), WorthOf(cluster, event, scratch), 1e-6) << "round " << round;
    }
  }
}

Task Linear(const std::string& name, double weight, std::int64_t nodes, std::int64_t least = 1) {
  Task task{
      .name = name, .weight = weight, .least_nodes = least, .speeds = {0}, .restart_seconds = 100, .nodes = nodes};
  for (int k = 1; k <= 20; ++k) task.speeds.push_back(k);
  return task;
}

Cluster Three() {
  return {.nodes = 8,
          .node_mtbf = 80 * kDaySeconds,
          .network = 1e9,
          .tasks = {Linear("a", 1, 4), Linear("b", 2, 2), Linear("c", 1, 2)},
          .starts = {Linear("d", 3, 0, 2)}};
}

// The bare sum starves light tasks; a promise does not.
TEST(AllocationTest, PromisesAreKept) {
  Cluster cluster = Three();
  EXPECT_THAT(BestAllocation(cluster, {}).nodes, ElementsAre(1, 6, 1));
  cluster.tasks[0].may_pause = true;
  EXPECT_THAT(BestAllocation(cluster, {}).nodes, ElementsAre(0, 7, 1));
}

// A cluster that fails often is left as it is; its transitions cost more than they bring.
TEST(AllocationTest, AFragileClusterMovesLittle) {
  Cluster cluster = Three();
  cluster.node_mtbf = 8 * 110;
  EXPECT_THAT(BestAllocation(cluster, {}).nodes, ElementsAre(4, 2, 2));
  EXPECT_THAT(BestAllocation(cluster, {ClusterEvent::kNodeLost, 0}).nodes, ElementsAre(3, 2, 2));
  EXPECT_THAT(BestAllocation(cluster, {ClusterEvent::kNodeJoins}).nodes, ElementsAre(4, 2, 2));
}

// Of equal allocations, the one that moves the fewest tasks.
TEST(AllocationTest, TiesMoveLittle) {
  Cluster cluster = Three();
  for (Task& task : cluster.tasks) {
    task.weight = 1;
    task.restart_seconds = 0;
  }
  EXPECT_THAT(BestAllocation(cluster, {}).nodes, ElementsAre(4, 2, 2));
  EXPECT_THAT(BestAllocation(cluster, {ClusterEvent::kNodeLost, 1}).nodes, ElementsAre(4, 1, 2));
}

TEST(AllocationTest, TasksWaitWherePromisesDoNotFit) {
  Cluster cluster = Three();
  cluster.nodes = 3;
  for (Task& task : cluster.tasks) task.nodes = 1;
  const NextAllocations tables(cluster);
  const Allocation& lost = tables.After({ClusterEvent::kNodeLost, 1});
  EXPECT_THAT(lost.waiting, ElementsAre(2));  // As light as the first, and behind it.
  EXPECT_THAT(lost.nodes, ElementsAre(1, 1, 0));
  const Allocation& starts = tables.After({ClusterEvent::kTaskStarts, 0});
  EXPECT_THAT(starts.waiting, ElementsAre(3));  // However heavy it is.
  EXPECT_THAT(tables.After({ClusterEvent::kTaskEnds, 0}).nodes, ElementsAre(0, 2, 1));
}

// Two tasks on two nodes each, and the first one loses one. Only the planned bytes decide whether it gets one of the
// other's.
TEST(AllocationTest, PlannedBytes) {
  const Task other{.name = "b", .speeds = {0, 1, 1.5}, .restart_seconds = 1, .nodes = 2};
  Task hit{.name = "a", .speeds = {0, 1, 2}, .restart_seconds = 1, .nodes = 2};
  hit.layouts.strategies = {{1, "one"}, {2, "two"}};
  for (const std::int64_t from : {0, 1, 2}) {
    for (const std::int64_t to : {1, 2}) {
      for (const bool loses : {false, true}) hit.moved[{from, to, loses}] = 0;
    }
  }
  Cluster cluster{.nodes = 4, .node_mtbf = 1e4, .network = 1, .tasks = {hit, other}};
  const NextEvent lost{ClusterEvent::kNodeLost, 0};
  EXPECT_THAT(BestAllocation(cluster, lost).nodes, ElementsAre(2, 1));
  cluster.tasks[0].moved[{2, 2, false}] = 2000;
  EXPECT_THAT(BestAllocation(cluster, lost).nodes, ElementsAre(2, 1));
  cluster.tasks[0].moved[{2, 2, true}] = 2000;
  EXPECT_THAT(BestAllocation(cluster, lost).nodes, ElementsAre(1, 2));
}

TEST(WorthTest, FewerNodesThanGivenMayBeUsed) {
  const Task task{.weight = 2, .least_nodes = 2, .speeds = {0, 9, 5, 0, 7}};
  EXPECT_EQ(Worth(task, 1), 0);
  EXPECT_EQ(Worth(task, 2), 18);
  EXPECT_EQ(Worth(task, 9), 18);
}

TEST(WorthTest, TransitionsMoveTheLargestShare) {
  const Task task{.restart_seconds = 60, .state_bytes = 1e12};
  EXPECT_NEAR(TransitionSeconds(task, 8, 4, false, 25e9), 70, 1e-9);
  EXPECT_NEAR(TransitionSeconds(task, 4, 5, false, 25e9), 70, 1e-9);
}

}  // namespace
}  // namespace ucp
