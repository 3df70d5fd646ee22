// Tasks that share the nodes of a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/coordination.h"
#include "tests/unit/runtime/coordinator/shared_cluster.h"

namespace ucp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Task TaskOf(const std::string& name, double weight, std::int64_t least, std::int64_t most) {
  Task task{.name = name, .weight = weight, .least_nodes = least};
  for (std::int64_t nodes = 0; nodes <= most; ++nodes) task.speeds.push_back(static_cast<double>(nodes) * 1e15);
  task.restart_seconds = 30;
  return task;
}

// `a` needs two nodes and is worth more; `b` takes what is left.
Cluster OfFour() {
  return {.nodes = 4, .node_mtbf = 1e7, .network = 1e11, .tasks = {TaskOf("a", 2, 2, 2), TaskOf("b", 1, 1, 4)}};
}

SharedCluster Started(Cluster cluster, std::int64_t spares = 0) {
  SharedCluster shared(std::move(cluster), spares);
  for (std::int64_t node = 1; node <= shared.cluster_->nodes; ++node) shared.Start("n" + std::to_string(node));
  shared.Pass(15);
  return shared;
}

TEST(SharesTest, TasksBeginOnTheirShares) {
  const SharedCluster shared = Started(OfFour());
  EXPECT_EQ(shared.CountOf("a"), 2U);
  EXPECT_EQ(shared.CountOf("b"), 2U);
}

TEST(SharesTest, ANodeMovesToTheTaskThatLostOne) {
  SharedCluster shared = Started(OfFour());
  const std::vector<std::string> of_b = shared.NodesOf("b");
  const std::string other = shared.NodesOf("a").back();
  shared.Kill(shared.NodesOf("a").front());
  shared.Pass(25);
  EXPECT_THAT(shared.NodesOf("b"), ElementsAre(of_b.front()));  // The first rank's, which has most of its state.
  EXPECT_THAT(shared.NodesOf("a"), UnorderedElementsAre(other, of_b.back()));
  ASSERT_EQ(shared.lost.size(), 1U);  // And not its other agents.
  EXPECT_EQ(shared.lost.front().task, "a");
}

// The state of `a` lies on four nodes, from where three are far, also when two of them are lost together.
TEST(SharesTest, TwoNodesThatAreLostTogether) {
  for (const double bytes : {0.0, 1e17}) {
    Cluster cluster{
        .nodes = 6, .node_mtbf = 1e7, .network = 1e11, .tasks = {TaskOf("a", 2, 2, 4), TaskOf("b", 1, 1, 2)}};
    Task& task = cluster.tasks.front();
    task.layouts.strategies = {{2, "two"}, {3, "three"}, {4, "four"}};
    for (const std::int64_t from : {0, 2, 3, 4}) {
      for (const std::int64_t to : {2, 3, 4}) task.moved[{from, to, false}] = task.moved[{from, to, true}] = 0;
    }
    task.moved[{4, 3, true}] = bytes;
    SharedCluster shared = Started(cluster);
    const std::vector<std::string> of_a = shared.NodesOf("a");
    ASSERT_EQ(of_a.size(), 4U);
    shared.Kill(of_a[0]);
    shared.Kill(of_a[1]);
    shared.Pass(25);
    EXPECT_EQ(shared.CountOf("a"), bytes == 0 ? 3U : 2U);
  }
}

TEST(SharesTest, ATaskThatLosesANodeStartsOnceOnly) {
  Cluster cluster = OfFour();
  cluster.tasks.front().least_nodes = 1;
  SharedCluster shared = Started(cluster);
  const auto epochs = [&] {
    return std::ranges::count_if(shared.entries, [](const auto& entry) { return entry.event == "epoch"; });
  };
  const auto before = epochs();
  shared.seconds_to_stop["b"] = 3;
  shared.Kill(shared.NodesOf("a").front());
  shared.Pass(25);
  EXPECT_EQ(epochs() - before, 2);  // One of each task.
  EXPECT_EQ(shared.CountOf("a"), 2U);
}

TEST(SharesTest, ATaskThatDoesNotLoseNoticesNothing) {
  Cluster cluster = OfFour();
  cluster.nodes = 5;
  cluster.tasks.push_back(TaskOf("c", 4, 1, 1));
  SharedCluster shared = Started(cluster);
  const std::int64_t epoch = shared.agent(shared.NodesOf("c").front(), "c").epoch;
  shared.Kill(shared.NodesOf("a").front());
  shared.Pass(25);
  EXPECT_EQ(shared.agent(shared.NodesOf("c").front(), "c").epoch, epoch);
  EXPECT_EQ(shared.CountOf("a"), 2U);
}

TEST(SharesTest, NodesOfATaskThatEndsGoToOthers) {
  SharedCluster shared = Started(OfFour());
  shared.End("a");
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("b"), 4U);
}

TEST(SharesTest, ANodeThatComesBackIsShared) {
  SharedCluster shared = Started(OfFour());
  shared.Kill("n4");
  shared.Pass(25);
  shared.Start("n4");
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("a"), 2U);
  EXPECT_EQ(shared.CountOf("b"), 2U);
}

TEST(SharesTest, PromisesThatDoNotFitLetTheLightestTaskWait) {
  SharedCluster shared = Started(OfFour());
  shared.Kill("n1");
  shared.Kill("n2");
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("a"), 2U);
  EXPECT_EQ(shared.CountOf("b"), 0U);
  shared.Start("n1");
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("b"), 1U);
}

TEST(SharesTest, SparesAreLeft) {
  SharedCluster shared = Started(OfFour(), 1);
  EXPECT_EQ(shared.CountOf("a") + shared.CountOf("b"), 3U);
  shared.Kill(shared.NodesOf("b").front());
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("a") + shared.CountOf("b"), 3U);
}

TEST(SharesTest, ADrainedNodeWorksForNoTask) {
  SharedCluster shared = Started(OfFour());
  ASSERT_FALSE(shared.coordination_.Drain(shared.NodesOf("a").front(), shared.now_));
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("a"), 2U);
  EXPECT_EQ(shared.CountOf("b"), 1U);
}

TEST(SharesTest, ATaskThatTheFileDoesNotHaveIsRefused) {
  SharedCluster shared = Started(OfFour());
  shared.StartOf("n1", "c");
  EXPECT_THAT(shared.agent("n1", "c").reason, HasSubstr("`c` is not in the file of tasks"));
}

TEST(SharesTest, ATaskHasNoShareOfNodesWithoutAnAgentOfIt) {
  SharedCluster shared(OfFour());
  for (const char* node : {"n1", "n2", "n3", "n4"}) shared.StartOf(node, "b");
  shared.StartOf("n1", "a");
  shared.Pass(40);
  EXPECT_EQ(shared.CountOf("b"), 4U);  // `a` needs two.
  shared.StartOf("n2", "a");
  shared.Pass(40);
  EXPECT_THAT(shared.NodesOf("a"), ElementsAre("n1", "n2"));
  EXPECT_THAT(shared.NodesOf("b"), ElementsAre("n3", "n4"));
}

TEST(SharesTest, ATaskMakesRoomForOneThatCanUseNoOtherNode) {
  Cluster cluster = OfFour();
  cluster.nodes = 3;
  SharedCluster shared = Started(cluster);
  ASSERT_EQ(shared.NodesOf("b").size(), 1U);
  const std::string lost = shared.NodesOf("a").front();
  const std::string of_b = shared.NodesOf("b").front();
  shared.KillOf(lost, "a");
  shared.Pass(60);
  EXPECT_THAT(shared.NodesOf("b"), ElementsAre(lost));
  EXPECT_EQ(shared.CountOf("a"), 2U);
  EXPECT_THAT(shared.NodesOf("a"), Contains(of_b));
}

TEST(SharesTest, ANodeThatIsLostIsNewsThoughAnotherTaskHasEndedThere) {
  SharedCluster shared = Started(OfFour());
  shared.End("a");
  shared.Pass(25);
  shared.Kill("n2");
  shared.Pass(25);
  EXPECT_EQ(shared.lost.size(), 1U);
}

TEST(SharesTest, ATaskThatIsEndingIsNotStopped) {
  SharedCluster shared = Started(OfFour());
  const std::vector<std::string> of_b = shared.NodesOf("b");
  shared.EndOn(of_b.front(), "b");
  shared.Kill(shared.NodesOf("a").front());
  shared.Pass(10);
  EXPECT_THAT(shared.NodesOf("b"), ElementsAre(of_b.back()));
  shared.EndOn(of_b.back(), "b");
  shared.Pass(25);
  EXPECT_EQ(shared.CountOf("a"), 2U);
}

// All agents come back to it, those that wait first.
TEST(SharesTest, ACoordinatorThatStartsAgainStopsNothing) {
  for (const bool has_journal : {true, false}) {
    SharedCluster shared = Started(OfFour());
    const std::vector<std::string> of_a = shared.NodesOf("a");
    const std::vector<std::string> of_b = shared.NodesOf("b");
    const std::int64_t epoch = shared.agent(of_a.front(), "a").epoch;
    shared.StartAgain(has_journal);
    shared.Pass(40);
    EXPECT_EQ(shared.NodesOf("a"), of_a);
    EXPECT_EQ(shared.NodesOf("b"), of_b);
    EXPECT_EQ(shared.agent(of_a.front(), "a").epoch, epoch);
    shared.Kill(of_a.front());
    shared.Pass(25);
    EXPECT_EQ(shared.CountOf("a"), 2U);
  }
}

TEST(SharesTest, AJournalWithSharesServesACoordinatorWithoutAFileOfTasks) {
  SharedCluster shared = Started(OfFour());
  Coordination next(0);
  for (const CoordinatorEntry& entry : shared.entries) ASSERT_FALSE(next.Replay(entry, 0));
  const llvm::json::Object status = next.Status(0);
  for (const llvm::json::Value& task : *status.getArray("tasks")) {
    EXPECT_EQ(task.getAsObject()->getInteger("share"), std::nullopt);
  }
}

TEST(SharesTest, AFailedProcessMovesNoNode) {
  SharedCluster shared = Started(OfFour());
  const std::vector<std::string> of_a = shared.NodesOf("a");
  shared.Fail(of_a.front());
  shared.Pass(25);
  EXPECT_EQ(shared.NodesOf("a"), of_a);
}

TEST(SharesTest, AJournalKeepsShares) {
  SharedCluster shared = Started(OfFour());
  Coordination next(0, shared.cluster_.get());
  for (const CoordinatorEntry& entry : shared.entries) ASSERT_FALSE(next.Replay(entry, 0));
  const llvm::json::Object status = next.Status(0);
  for (const llvm::json::Value& task : *status.getArray("tasks")) {
    EXPECT_EQ(task.getAsObject()->getInteger("share"), 2);
  }
}

TEST(SharesTest, RandomEventsEndInThePlan) {
  int compared = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t count) { return random() % count; };
    Cluster cluster{.nodes = 6, .node_mtbf = 1e7, .network = 1e11};
    cluster.tasks = {TaskOf("a", 2, 2, 3), TaskOf("b", 1, 1, 6), TaskOf("c", 1.5, 1, 2)};
    cluster.tasks[1].may_pause = below(2) == 0;
    SharedCluster shared = Started(cluster, static_cast<std::int64_t>(below(2)));
    std::vector<bool> is_there(7, true);
    for (int event = 0; event < 12; ++event) {
      const std::size_t number = 1 + below(6);
      const std::string node = "n" + std::to_string(number);
      if (below(3) == 0) {
        shared.Fail(node);
      } else if (is_there[number]) {
        shared.Kill(node);
        is_there[number] = false;
      } else {
        shared.Start(node);
        is_there[number] = true;
      }
      shared.Pass(static_cast<double>(below(12)));
    }
    shared.Pass(60);
    const llvm::json::Object status = shared.coordination_.Status(shared.now_);
    for (const llvm::json::Value& value : *status.getArray("tasks")) {
      const llvm::json::Object& task = *value.getAsObject();
      if (task.getString("state") == "parked") continue;
      ++compared;
      EXPECT_EQ(static_cast<std::int64_t>(shared.CountOf(task.getString("task")->str())), task.getInteger("share"))
          << "seed " << seed << ", task " << task.getString("task")->str();
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace ucp
