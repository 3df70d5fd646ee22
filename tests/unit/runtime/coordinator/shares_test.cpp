// Tasks that share the nodes of a cluster. Each node has an agent for each task, as a torchrun waits for each; agents
// obey, and processes of one node for two tasks fail the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/coordination.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Task TaskOf(const std::string& name, double weight, std::int64_t least, std::int64_t most) {
  Task task{.name = name, .weight = weight, .least_nodes = least};
  for (std::int64_t nodes = 0; nodes <= most; ++nodes) task.speeds.push_back(static_cast<double>(nodes) * 1e15);
  task.restart_seconds = 30;
  return task;
}

class SharedCluster {
 public:
  struct Agent {
    Connection connection = 0;  // 0: its torchrun does not run.
    std::int64_t epoch = 0;     // Of its last processes.
    bool has_processes = false;
    double stops = 0;         // When it obeys a restart; 0: there is none.
    std::string reason = {};  // Why it was closed.
  };

  explicit SharedCluster(Cluster cluster, std::int64_t spares = 0)
      : cluster_(std::make_unique<Cluster>(std::move(cluster))), coordination_(spares, cluster_.get()) {
    coordination_.Begin(0);
  }

  // torchruns of all tasks start on the node.
  void Start(const std::string& node) {
    for (const Task& task : cluster_->tasks) StartOf(node, task.name);
  }
  void StartOf(const std::string& node, const std::string& task, std::int64_t least = 1, std::int64_t most = 8) {
    Agent& agent = agents_[{node, task}];
    agent = {.connection = ++connections_};
    least_[task] = {least, most};
    Join(node, task, agent);
  }
  void Kill(const std::string& node) {
    for (auto& [id, agent] : agents_) {
      if (id.first != node || agent.connection == 0) continue;
      coordination_.OnClosed(agent.connection, now_);
      agent = {};
    }
    Take();
  }
  void End(const std::string& task) {
    for (auto& [id, agent] : agents_) {
      if (id.second != task || !agent.has_processes) continue;
      agent.has_processes = false;
      coordination_.OnMessage(agent.connection, {.kind = AgentMessage::Kind::kEnded, .epoch = agent.epoch}, now_);
    }
    Take();
  }
  void Fail(const std::string& node) {
    for (auto& [id, agent] : agents_) {
      if (id.first != node || !agent.has_processes) continue;
      AgentMessage message{.kind = AgentMessage::Kind::kFailed, .epoch = agent.epoch};
      message.ends = {{0, -9, "", ""}};
      coordination_.OnMessage(agent.connection, message, now_);
    }
    Take();
  }
  void Pass(double seconds) {
    for (const double end = now_ + seconds; now_ < end;) {
      now_ += 0.5;
      ++step_;
      for (auto& [id, agent] : agents_) {
        if (agent.connection == 0) continue;
        if (agent.stops > 0 && now_ >= agent.stops) {
          agent.has_processes = false;
          agent.stops = 0;
          Join(id.first, id.second, agent);
        }
        AgentMessage message{.kind = AgentMessage::Kind::kBeat, .epoch = agent.epoch};
        if (agent.has_processes) message.step = step_;
        coordination_.OnMessage(agent.connection, message, now_);
      }
      coordination_.OnTick(now_);
      Take();
    }
  }
  // The nodes with processes of the task.
  std::vector<std::string> NodesOf(const std::string& task) const {
    std::vector<std::string> nodes;
    for (const auto& [id, agent] : agents_) {
      if (id.second == task && agent.has_processes) nodes.push_back(id.first);
    }
    return nodes;
  }
  std::size_t CountOf(const std::string& task) const { return NodesOf(task).size(); }
  const Agent& agent(const std::string& node, const std::string& task) { return agents_[{node, task}]; }

  std::unique_ptr<Cluster> cluster_;  // Stays where it is.
  Coordination coordination_;
  std::vector<CoordinatorEntry> entries;
  std::vector<CoordinatorEntry> lost;
  double now_ = 0;
  std::map<std::string, double> seconds_to_stop;  // By task.

 private:
  void Join(const std::string& node, const std::string& task, const Agent& agent) {
    AgentMessage message{.kind = AgentMessage::Kind::kJoin, .epoch = agent.epoch, .task = task, .node = node};
    message.host = node;
    message.port = agent.connection;
    message.least = least_[task].first;
    message.most = least_[task].second;
    coordination_.OnMessage(agent.connection, message, now_);
    Take();
  }

  void Take() {
    CoordinatorEffects effects = coordination_.TakeEffects();
    entries.insert(entries.end(), effects.entries.begin(), effects.entries.end());
    lost.insert(lost.end(), effects.lost.begin(), effects.lost.end());
    for (const auto& [to, message] : effects.messages) Obey(to, message);
  }

  void Obey(Connection to, const CoordinatorMessage& message) {
    for (auto& [id, agent] : agents_) {
      if (agent.connection != to) continue;
      if (message.kind == CoordinatorMessage::Kind::kClose) {
        agent = {.reason = message.reason};
        coordination_.OnClosed(to, now_);
      } else if (message.kind == CoordinatorMessage::Kind::kWorld) {
        agent.has_processes = true;
        agent.epoch = message.epoch;
        ExpectOneTask(id.first);
      } else {
        agent.stops = now_ + seconds_to_stop[id.second];
      }
      return;
    }
  }

  void ExpectOneTask(const std::string& node) const {
    std::vector<std::string> tasks;
    for (const auto& [id, agent] : agents_) {
      if (id.first == node && agent.has_processes) tasks.push_back(id.second);
    }
    EXPECT_LE(tasks.size(), 1U) << node << " works for " << tasks.front() << " and " << tasks.back();
  }

  std::map<std::pair<std::string, std::string>, Agent> agents_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> least_;
  Connection connections_ = 0;
  std::int64_t step_ = 0;
};

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
      EXPECT_EQ(static_cast<std::int64_t>(shared.CountOf(task.getString("task")->str())), task.getInteger("share"))
          << "seed " << seed << ", task " << task.getString("task")->str();
    }
  }
}

}  // namespace
}  // namespace ucp
