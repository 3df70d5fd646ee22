// Nodes that come and go, and the invariants of coordination.h.
#include "runtime/coordinator/coordination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "compiler/support/error.h"
#include "tests/unit/runtime/coordinator/coordinated_cluster.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = AgentMessage::Kind;
using Told = CoordinatorMessage::Kind;

TEST(CoordinationTest, AWorldHasTheStoreOfItsFirstNode) {
  CoordinatedCluster cluster;
  cluster.Join(1);
  cluster.Pass(1, {1}, 0);
  EXPECT_THAT(cluster.messages, IsEmpty());
  cluster.Join(2);
  cluster.Pass(0.5, {1, 2}, 0);
  ASSERT_THAT(cluster.messages, SizeIs(2));
  for (const std::int64_t rank : {0, 1}) {
    const auto& [to, world] = cluster.messages[static_cast<std::size_t>(rank)];
    EXPECT_EQ(to, rank + 1);
    EXPECT_EQ(world.epoch, 1);
    EXPECT_EQ(world.rank, rank);
    EXPECT_EQ(world.nodes, 2);
    EXPECT_EQ(world.host, "host1");
    EXPECT_EQ(world.port, 101);
  }
}

TEST(CoordinationTest, EnoughNodesWaitTenSecondsForMore) {
  CoordinatedCluster cluster;
  cluster.Join(1);
  cluster.Pass(9, {1}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), IsEmpty());
  cluster.Pass(2, {1}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1));
  cluster.Train(1, 0, 3, {1});
  cluster.Join(2);  // It is taken in.
  cluster.Pass(0.5, {1}, 1);
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1));
  cluster.Join(1, 1);
  cluster.Pass(0.5, {}, 1);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1, 2));
}

TEST(CoordinationTest, H1OlderEpochsAreRefused) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Fail(1, 1, -9);
  EXPECT_EQ(cluster.LastAnswer(), "process exited on 1: restart");
  cluster.Join(1, 1);
  cluster.Join(2, 1);
  cluster.Pass(0.5, {}, 1);
  cluster.messages.clear();
  const std::size_t entries = cluster.entries.size();
  cluster.Fail(2, 1, -9);  // Of the epoch before.
  cluster.Beat(2, 1, 100);
  cluster.Pass(0.5, {1, 2}, 2);
  EXPECT_EQ(cluster.entries.size(), entries);
  EXPECT_THAT(cluster.messages, IsEmpty());
  cluster.Close(2);
  cluster.Resume(3, 1, 0);  // Processes of an epoch that is over.
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(3));
}

TEST(CoordinationTest, H2ANodeIsInOneTask) {
  CoordinatedCluster cluster = OfTwo();
  AgentMessage other{.kind = Kind::kJoin};
  other.task = "u";
  other.node = "1";
  other.host = "host9";
  cluster.Say(9, other);
  ASSERT_THAT(cluster.messages, SizeIs(1));
  EXPECT_EQ(cluster.messages[0].first, 9);
  EXPECT_THAT(cluster.messages[0].second.reason, HasSubstr("node `1` is connected already and works for task `t`"));
  cluster.Close(1);
  cluster.Say(10, other);
  EXPECT_THAT(cluster.messages[1].second.reason, HasSubstr("works for task `t`, and cannot work for `u`"));
}

TEST(CoordinationTest, H3NothingBeginsBeforeTheLastSurvivorHasStopped) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Fail(1, 1, -9);
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1, 2));
  cluster.Join(1, 1);
  cluster.Pass(60, {2, 1}, 1);  // 2 beats, and does not stop.
  EXPECT_THAT(cluster.Heard(Told::kWorld), IsEmpty());
  cluster.Close(2);
  cluster.Pass(4, {1}, 1);  // It may come back.
  EXPECT_THAT(cluster.Heard(Told::kWorld), IsEmpty());
  cluster.Pass(2, {1}, 1);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1));
}

TEST(CoordinationTest, AConnectionThatComesBackLosesNothing) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Close(2);
  cluster.Pass(3, {1}, 1);
  AgentMessage resume{.kind = Kind::kResume, .epoch = 1};
  resume.task = "t";
  resume.node = "2";
  resume.host = "host2";
  resume.most = 2;
  resume.rank = 1;
  resume.nodes = 2;
  cluster.Say(7, resume);
  cluster.Pass(20, {1, 7}, 1);
  EXPECT_THAT(cluster.messages, IsEmpty());
  EXPECT_THAT(cluster.lost, IsEmpty());
}

TEST(CoordinationTest, ATaskEndsWhenAllOfItsNodesHave) {
  CoordinatedCluster cluster(1);
  for (const Connection node : {1, 2, 3}) cluster.Join(node, 0, 1, 2);
  cluster.Pass(0.5, {1, 2, 3}, 0);
  cluster.Say(1, {.kind = Kind::kEnded, .epoch = 1});
  EXPECT_THAT(cluster.Heard(Told::kClose), IsEmpty());
  cluster.Say(2, {.kind = Kind::kEnded, .epoch = 1});
  ASSERT_FALSE(cluster.messages.empty());
  EXPECT_TRUE(cluster.messages.back().second.is_good);
  EXPECT_THAT(cluster.Heard(Told::kClose), ElementsAre(3));
  cluster.Close(1);
  cluster.Close(2);
  cluster.Pass(20, {}, 1);
  EXPECT_EQ(cluster.LastAnswer(), "");
}

// H5: after each entry a coordinator may end, and the next one has decided the same.
TEST(CoordinationTest, H5AnEpochIsSaidAgainAfterARestart) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 20);
  cluster.Fail(2, 1, -9);
  cluster.Join(1, 1);
  cluster.Join(2, 1);
  cluster.Pass(0.5, {}, 1);
  for (std::size_t count = 1; count <= cluster.entries.size(); ++count) {
    Coordination next(0);
    std::int64_t epoch = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const CoordinatorEntry& entry = cluster.entries[i];
      ASSERT_FALSE(next.Replay(entry, entry.time - cluster.now_));
      if (entry.event == "epoch") epoch = entry.epoch;
    }
    EXPECT_THAT(next.TakeEffects().messages, IsEmpty());
    next.Begin(0);
    // Agents that run, of the epoch that was written last.
    CoordinatedCluster after;
    after.coordination_ = next;
    after.Resume(1, epoch, 0);
    after.Resume(2, epoch, 1);
    after.Pass(20, {1, 2}, epoch);
    const bool was_stopped = cluster.entries[count - 1].event == "failure";
    EXPECT_THAT(after.Heard(Told::kRestart), SizeIs(was_stopped ? 2 : 0)) << count;
    EXPECT_THAT(after.lost, IsEmpty());
  }
}

TEST(CoordinationTest, ACoordinatorWithoutAJournalTakesOverWhatRuns) {
  CoordinatedCluster cluster;
  cluster.Resume(2, 7, 1);
  cluster.Resume(1, 7, 0);
  cluster.Train(7, 100, 20);
  EXPECT_THAT(cluster.messages, IsEmpty());
  cluster.Fail(2, 7, -9);
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1, 2));
  cluster.Join(1, 7);
  cluster.Join(2, 7);
  cluster.Pass(0.5, {}, 7);
  EXPECT_EQ(cluster.messages.back().second.epoch, 8);
}

TEST(CoordinationTest, AnotherAgentOfTheSameNodeHasNoProcesses) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 20);
  cluster.Close(2);
  AgentMessage again{.kind = Kind::kJoin};
  again.task = "t";
  again.node = "2";
  again.host = "host2";
  again.port = 999;
  again.most = 2;
  cluster.Say(5, again);
  EXPECT_EQ(cluster.LastAnswer(), "process exited on 2: restart");
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1));
}

// Whatever agents say, epochs only grow, and a world is only given to nodes that have said that they have no processes.
TEST(CoordinationTest, RandomMessagesKeepTheInvariants) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int count) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(count)); };
    CoordinatedCluster cluster(pick(2));
    std::map<Connection, std::int64_t> runs;  // The epoch of the processes, by node.
    std::set<Connection> connected;
    std::int64_t newest = 0;
    std::size_t seen = 0;  // Of the entries.
    for (int turn = 0; turn < 300; ++turn) {
      const Connection node = 1 + pick(4);
      const std::int64_t epoch = runs.contains(node) ? runs[node] : newest;
      switch (pick(7)) {
        case 0:
          cluster.Join(node, epoch, 1, 3);
          connected.insert(node);
          runs.erase(node);
          break;
        case 1:
          if (runs.contains(node)) cluster.Beat(node, epoch, turn);
          break;
        case 2:
          if (runs.contains(node)) cluster.Fail(node, epoch, pick(2) == 0 ? -9 : 1);
          break;
        case 3:
          cluster.Close(node);
          runs.erase(node);  // It is not heard of, which is why it may be lost.
          break;
        case 4:
          if (pick(10) == 0 && connected.contains(node)) {
            llvm::consumeError(cluster.coordination_.Drain(std::to_string(node), cluster.now_));
          }
          break;
        default:
          cluster.Pass(static_cast<double>(pick(4)), {}, 0);
      }
      cluster.Take();
      for (const auto& [to, message] : cluster.messages) {
        if (message.kind != Told::kWorld) continue;
        EXPECT_GE(message.epoch, newest);  // H1.
        newest = message.epoch;
        runs[to] = message.epoch;
      }
      for (; seen < cluster.entries.size(); ++seen) {
        if (cluster.entries[seen].event == "lost") runs.erase(std::stoll(cluster.entries[seen].node));
      }
      for (const auto& [other, of_other] : runs) EXPECT_EQ(of_other, newest) << "H3, seed " << seed;
      cluster.messages.clear();
    }
  }
}

}  // namespace
}  // namespace ucp
