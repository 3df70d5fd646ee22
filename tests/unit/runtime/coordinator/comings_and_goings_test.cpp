// Connections that break at a bad moment, long phases of one node, and tasks whose names come again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/coordinator/coordination.h"
#include "tests/unit/runtime/coordinator/coordinated_cluster.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = AgentMessage::Kind;
using Told = CoordinatorMessage::Kind;

AgentMessage Of(Kind kind, std::int64_t epoch) {
  AgentMessage message{.kind = kind};
  message.epoch = epoch;
  return message;
}

// By another connection than its number.
AgentMessage ResumeOf(const std::string& node, std::int64_t epoch, std::int64_t rank) {
  AgentMessage message = Of(Kind::kResume, epoch);
  message.task = "t";
  message.node = node;
  message.host = "host" + node;
  message.port = 100 + std::stoll(node);
  message.most = 2;
  message.rank = rank;
  message.nodes = 2;
  return message;
}

TEST(ComingsAndGoingsTest, ALongPhaseOfOneNodeIsTheTasks) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 20);
  AgentMessage evaluates = Of(Kind::kBeat, 1);
  evaluates.step = 19;
  evaluates.phase = "evaluation";
  evaluates.phase_seconds = 600;
  for (int second = 0; second < 300; ++second) {  // The other node waits for it.
    cluster.Say(1, evaluates);
    cluster.Pass(1, {2}, 1);
  }
  EXPECT_EQ(cluster.LastAnswer(), "");
  cluster.Pass(60, {1, 2}, 1);  // It has ended, and no iteration comes.
  EXPECT_THAT(cluster.LastAnswer(), HasSubstr("hang"));
}

TEST(ComingsAndGoingsTest, AnAgentThatLostItsConnectionUnheardComesBack) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Say(9, ResumeOf("2", 1, 1));
  EXPECT_THAT(cluster.messages, IsEmpty());
  cluster.Close(2);
  for (int i = 0; i < 20; ++i) {
    cluster.Beat(9, 1, 3 + i);
    cluster.Pass(1, {1}, 1);
  }
  EXPECT_EQ(cluster.LastAnswer(), "");
  AgentMessage other = ResumeOf("2", 1, 1);
  other.port = 7;
  cluster.Say(10, other);
  ASSERT_THAT(cluster.messages, SizeIs(1));
  EXPECT_TRUE(cluster.messages[0].second.refused);
  EXPECT_THAT(cluster.Heard(Told::kClose), ElementsAre(10));
}

TEST(ComingsAndGoingsTest, ANodeThatHasEndedMayGo) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Say(1, Of(Kind::kEnded, 1));
  cluster.Close(1);
  cluster.Pass(20, {2}, 1);
  EXPECT_EQ(cluster.LastAnswer(), "");
  cluster.Say(2, Of(Kind::kEnded, 1));
  EXPECT_EQ(cluster.entries.back().event, "ended");
  cluster.messages.clear();
  cluster.Say(9, ResumeOf("1", 1, 0));
  ASSERT_THAT(cluster.messages, SizeIs(1));
  EXPECT_TRUE(cluster.messages[0].second.is_good);
}

TEST(ComingsAndGoingsTest, EpochsGoOnWhereACoordinatorKnowsNoneOfThem) {
  CoordinatedCluster cluster;
  cluster.Join(1, 5);
  cluster.Join(2, 4);
  cluster.Pass(0.5, {1, 2}, 0);
  ASSERT_THAT(cluster.messages, SizeIs(2));
  EXPECT_EQ(cluster.messages[0].second.epoch, 6);
}

// It decided an epoch without them, and they must not train on in another one.
TEST(ComingsAndGoingsTest, H1ProcessesOfAnEpochThatIsUnknownAreStopped) {
  CoordinatedCluster cluster;
  cluster.Join(1);
  cluster.Pass(11, {1}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1));
  cluster.Train(1, 0, 3, {1});
  cluster.Say(9, ResumeOf("2", 7, 0));
  ASSERT_THAT(cluster.messages, SizeIs(1));
  EXPECT_EQ(cluster.messages[0].second.epoch, 7);  // An agent follows no older one.
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(9));
  AgentMessage join = ResumeOf("2", 7, 0);
  join.kind = Kind::kJoin;
  cluster.Say(9, join);
  cluster.Pass(0.5, {1}, 1);
  cluster.Join(1, 1);
  cluster.messages.clear();
  cluster.Pass(0.5, {}, 1);
  ASSERT_THAT(cluster.messages, SizeIs(2));
  EXPECT_EQ(cluster.messages[0].second.epoch, 8);
}

// Only some of its nodes have heard of the epoch that an earlier coordinator decided.
TEST(ComingsAndGoingsTest, AnEpochThatIsNotWholeBeginsAgain) {
  CoordinatedCluster cluster;
  cluster.Resume(1, 1, 0);
  cluster.Join(2);
  cluster.Pass(9, {1, 2}, 1);
  EXPECT_THAT(cluster.Heard(Told::kRestart), IsEmpty());
  cluster.Pass(2, {1, 2}, 1);
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1));
  cluster.Join(1, 1);
  cluster.Pass(0.5, {}, 1);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1, 2));
}

TEST(ComingsAndGoingsTest, ANewJobOfAnOldNameWaitsForMoreNodes) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Say(1, Of(Kind::kEnded, 1));
  cluster.Say(2, Of(Kind::kEnded, 1));
  cluster.messages.clear();
  cluster.Close(1);
  cluster.Close(2);
  cluster.Join(3);
  cluster.Pass(9, {3}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), IsEmpty());
  cluster.Pass(2, {3}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(3));
}

TEST(ComingsAndGoingsTest, ATaskWithoutNodesDoesNotHoldItsNumbers) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Close(1);
  cluster.Close(2);
  cluster.Pass(10, {}, 1);
  cluster.messages.clear();
  cluster.Join(3, 0, 1, 1);
  EXPECT_THAT(cluster.Heard(Told::kClose), IsEmpty());
}

TEST(ComingsAndGoingsTest, OnlyMachinesThatATaskWantsAreToBeReplaced) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Say(2, Of(Kind::kLeave, 0));  // Somebody has stopped its torchrun.
  EXPECT_THAT(cluster.lost, IsEmpty());
  cluster.Close(1);
  cluster.Pass(6, {}, 1);
  EXPECT_THAT(cluster.lost, ElementsAre("1"));
}

TEST(ComingsAndGoingsTest, AReplayedJobOfAnOldNameHasAHistoryOfItsOwn) {
  CoordinatedCluster live = OfTwo();
  for (std::int64_t epoch = 1; live.LastAnswer().find("park") == std::string::npos; ++epoch) {
    ASSERT_LT(epoch, 20);
    live.Fail(1, epoch, -9);
    live.Join(1, epoch);
    live.Join(2, epoch);
    live.Pass(11, {}, epoch);
  }
  live.Close(1);
  live.Close(2);
  live.Join(3, 0, 1, 1);
  live.Pass(0.5, {3}, 0);
  const std::int64_t epoch = live.entries.back().epoch;
  ASSERT_EQ(live.entries.back().event, "epoch");
  Coordination next(0);
  for (const CoordinatorEntry& entry : live.entries) {
    ASSERT_EQ(static_cast<bool>(next.Replay(entry, entry.time - live.now_)), false);
  }
  next.Begin(0);
  CoordinatedCluster after;
  after.coordination_ = std::move(next);
  AgentMessage resume = ResumeOf("3", epoch, 0);
  resume.most = resume.nodes = 1;
  after.Say(3, resume);
  after.Fail(3, epoch, -9);
  EXPECT_THAT(after.LastAnswer(), HasSubstr("process exited on 3: restart"));
}

}  // namespace
}  // namespace ucp
