#include "runtime/healing/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ucp {
namespace {

using ::testing::HasSubstr;

Task OneTask(std::int64_t nodes) {
  Task task{.name = "a", .speeds = {0}, .restart_seconds = 60, .nodes = nodes};
  for (int k = 1; k <= 8; ++k) task.speeds.push_back(k);
  return task;
}

Cluster Four(std::int64_t nodes = 4) {
  return {.nodes = 4, .node_mtbf = 1e9, .network = 1e9, .tasks = {OneTask(nodes)}};
}

FailureTrace TraceOf(const std::vector<std::pair<double, const char*>>& failures, double repair = 5000) {
  FailureTrace trace{.seconds = 10'000, .times = {}, .failures = {}};
  std::int64_t node = 0;
  for (const auto& [at, kind] : failures) {
    trace.failures.push_back({.at = at, .node = node++ % 4, .kind = FindFailureKind(kind), .repair = repair});
  }
  return trace;
}

double FlopOf(const Cluster& cluster, const FailureTrace& trace, HealingPolicy policy) {
  return Simulate(cluster, trace, policy).flop;
}

// By hand: what is stopped, and for how long.
TEST(SimulationTest, AProcessExits) {
  const FailureTrace trace = TraceOf({{1000, "process exited"}});
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kUcp), 4 * (10'000 - 1.8 - 60 - 60), 1e-6);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kOwn), 4 * (10'000 - 1.8 - 60 - 60), 1e-6);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kWait), 4 * (10'000 - 68 * 60), 1e-6);
  EXPECT_NEAR(FlopOf(Four(), TraceOf({{1000, "hang"}}), HealingPolicy::kUcp), 4 * (10'000 - 120 - 120), 1e-6);
  const FailureTrace passing = TraceOf({{1000, "connection refused or reset"}});
  EXPECT_NEAR(FlopOf(Four(), passing, HealingPolicy::kUcp), 4 * (10'000 - 0.3 - 10), 1e-6);
}

TEST(SimulationTest, ANodeIsLost) {
  const FailureTrace trace = TraceOf({{1000, "lost connection"}});
  const double ucp = 4 * 1000 + 3 * (5000 - 5.6 - 120) + 4 * (4000 - 120);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kUcp), ucp, 1e-6);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kOwn), ucp, 1e-6);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kRestart), 4 * 1000 + 3 * (5000 - 5.6 - 2280) + 4 * (4000 - 2280),
              1e-6);
  EXPECT_NEAR(FlopOf(Four(), trace, HealingPolicy::kWait), 4 * 1000 + 4 * (4000 - 2280), 1e-6);
}

TEST(SimulationTest, PlannedBytes) {
  Cluster cluster = Four();
  Task& task = cluster.tasks.front();
  task.layouts.strategies = {{1, "one"}, {4, "four"}};
  task.moved = {{{1, 1, false}, 0},   {{1, 1, true}, 0},    {{1, 4, false}, 7e9}, {{1, 4, true}, 0},
                {{4, 1, false}, 5e9}, {{4, 1, true}, 30e9}, {{4, 4, false}, 0},   {{4, 4, true}, 0}};
  EXPECT_NEAR(FlopOf(cluster, TraceOf({{1000, "lost connection"}}), HealingPolicy::kUcp),
              4 * 1000 + 3 * (5000 - 5.6 - 120 - 30) + 4 * (4000 - 120 - 7), 1e-6);
}

// With a spare node nobody waits.
TEST(SimulationTest, ASpareTakesThePlace) {
  const FailureTrace trace = TraceOf({{1000, "lost connection"}});
  Cluster cluster = Four(3);
  cluster.tasks[0].speeds.resize(4);
  EXPECT_NEAR(FlopOf(cluster, trace, HealingPolicy::kUcp), 3 * (10'000 - 5.6 - 120), 1e-6);
  EXPECT_NEAR(FlopOf(cluster, trace, HealingPolicy::kWait), 3 * (10'000 - 5.6 - 2280), 1e-6);
}

// The cluster is planned anew: the light task gives its node to the heavy one.
TEST(SimulationTest, OthersHelp) {
  Cluster cluster = Four(2);
  cluster.tasks.push_back(OneTask(2));
  cluster.tasks[0].weight = 10;
  cluster.tasks[1].name = "b";
  const FailureTrace trace = TraceOf({{1000, "lost connection"}}, 20'000);
  EXPECT_NEAR(FlopOf(cluster, trace, HealingPolicy::kUcp), 20 * (10'000 - 125.6) + 2 * 1000 + 1 * (9000 - 120), 1e-6);
  EXPECT_NEAR(FlopOf(cluster, trace, HealingPolicy::kOwn), 20 * 1000 + 10 * (9000 - 125.6) + 2 * 10'000, 1e-6);
}

TEST(SimulationTest, TheLadderAnswers) {
  FailureTrace trace = TraceOf({{1000, "process exited"}, {3000, "process exited"}});
  trace.failures[1].node = 0;
  const Simulation simulation = Simulate(Four(), trace, HealingPolicy::kUcp);
  EXPECT_EQ(simulation.answers[static_cast<std::size_t>(Answer::kRestart)], 1);
  EXPECT_EQ(simulation.answers[static_cast<std::size_t>(Answer::kIsolate)], 1);
  EXPECT_EQ(simulation.moments.back().nodes, 4);
  EXPECT_NEAR(simulation.flop, 4 * (3000 - 121.8) + 3 * (5000 - 121.8) + 4 * (2000 - 120), 1e-6);
}

TEST(SimulationTest, BeginsWithTheBestAllocation) {
  const Simulation simulation = Simulate(Four(0), TraceOf({}), HealingPolicy::kWait);
  EXPECT_EQ(simulation.flop, 40'000);
  EXPECT_EQ(simulation.ideal, 40'000);
}

// Whatever happens: no more than without failures, no node twice, and a clock that goes forward.
TEST(SimulationTest, RandomTraces) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    Cluster cluster{.nodes = 16, .node_mtbf = 1e5 * static_cast<double>(1 + random() % 100), .network = 1e9};
    for (int i = 0; i < 5; ++i) {
      cluster.tasks.push_back(OneTask(static_cast<std::int64_t>(random() % 4)));
      cluster.tasks.back().weight = 1 + static_cast<double>(random() % 5);
      cluster.tasks.back().least_nodes = 1 + static_cast<std::int64_t>(random() % 3);
    }
    FailureTrace trace{.seconds = 1e6, .times = {}, .failures = {}};
    for (double at = 0; at < 1e6; at += static_cast<double>(random() % 20'000)) {
      const FailureKind& kind = FailureKinds()[random() % FailureKinds().size()];
      trace.failures.push_back({.at = at,
                                .node = static_cast<std::int64_t>(random() % 16),
                                .kind = &kind,
                                .repair = static_cast<double>(random() % 200'000)});
    }
    for (const auto& [name, policy] : kHealingPolicies) {
      const Simulation simulation = Simulate(cluster, trace, policy);
      double last = 0;
      for (const SimulatedMoment& moment : simulation.moments) {
        EXPECT_GE(moment.at, last);
        EXPECT_LE(moment.nodes, 16);
        EXPECT_GE(moment.nodes, 0);
        last = moment.at;
      }
      EXPECT_GE(simulation.flop, 0);
      EXPECT_TRUE(policy != HealingPolicy::kWait || simulation.flop <= simulation.ideal * (1 + 1e-12));
    }
  }
}

std::string RefusalOfTrace(const std::string& text) {
  llvm::Expected<FailureTrace> trace = ParseTrace(text);
  return trace ? "none" : llvm::toString(trace.takeError());
}

TEST(TraceTest, EveryKey) {
  const FailureTrace trace = llvm::cantFail(ParseTrace(
      R"({"source": "made up", "hours": 2, "times": {"iteration": 10, "person": 5}, "failures": [
          {"hours": 1, "node": 3, "failure": "hang", "repair_hours": 24}]})"));
  EXPECT_EQ(trace.seconds, 7200);
  EXPECT_EQ(trace.times.iteration, 10);
  EXPECT_EQ(trace.times.person, 5);
  EXPECT_EQ(trace.times.timeout, 1800);
  EXPECT_EQ(trace.failures.at(0).at, 3600);
  EXPECT_EQ(trace.failures.at(0).node, 3);
  EXPECT_EQ(trace.failures.at(0).kind, FindFailureKind("hang"));
  EXPECT_EQ(trace.failures.at(0).repair, 86'400);
}

TEST(TraceTest, Refusals) {
  EXPECT_THAT(RefusalOfTrace("{}"), HasSubstr("it has no `hours`"));
  EXPECT_THAT(RefusalOfTrace(R"({"hours": 0, "failures": []})"), HasSubstr("`hours` is 0"));
  EXPECT_THAT(
      RefusalOfTrace(R"({"hours": 1, "failures": [{"hours": 1, "node": 0, "failure": "flood"}]})"),
      HasSubstr("`failures`: failure 1: `failure`: `flood` is not a kind of failure; there are `lost connection`"));
  EXPECT_THAT(RefusalOfTrace(R"({"hours": 1, "times": {"iteration": 0}, "failures": []})"),
              HasSubstr("`iteration` is 0"));
  EXPECT_THAT(RefusalOfTrace(R"({"hours": 9, "failures": [
                  {"hours": 2, "node": 0, "failure": "hang", "repair_hours": 1},
                  {"hours": 1, "node": 0, "failure": "hang", "repair_hours": 1}]})"),
              HasSubstr("failure 2 is at 1 h, before the one before it, at 2 h"));
  EXPECT_THAT(RefusalOfTrace(R"({"hours": 1, "failures": [{"hours": 1, "node": -1}]})"), HasSubstr("it is -1"));
}

}  // namespace
}  // namespace ucp
