// Failures, and what a coordinator does about them.
#include "runtime/coordinator/coordination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/runtime/coordinator/coordinated_cluster.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = AgentMessage::Kind;
using Told = CoordinatorMessage::Kind;

TEST(AnswersTest, ALostNodeIsLeftOutAfterFiveSeconds) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  const double closed = cluster.now_;
  cluster.Close(2);
  while (cluster.lost.empty()) cluster.Pass(0.5, {1}, 1);
  EXPECT_GT(cluster.now_ - closed, 5);
  EXPECT_LT(cluster.now_ - closed, 6);
  EXPECT_THAT(cluster.lost, ElementsAre("2"));
  EXPECT_EQ(cluster.LastAnswer(), "lost connection on 2: isolate");
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1));
}

TEST(AnswersTest, AFailureThatMayFollowFromAnotherWaitsForIt) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Fail(2, 1, 1, "RuntimeError", "Connection closed by peer [127.0.0.1]:31");
  EXPECT_EQ(cluster.LastAnswer(), "");
  cluster.Fail(1, 1, -9);
  EXPECT_EQ(cluster.LastAnswer(), "process exited on 1: restart");
  CoordinatedCluster alone = OfTwo();
  alone.Train(1, 0, 3);
  alone.Fail(2, 1, 1, "RuntimeError", "Connection closed by peer [127.0.0.1]:31");
  alone.Pass(1.5, {1, 2}, 1);
  EXPECT_EQ(alone.LastAnswer(), "other network error on 2: restart");
}

TEST(AnswersTest, ANodeThatIsCutOffExplainsTheFailuresOfOthers) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 3);
  cluster.Close(1);
  cluster.Fail(2, 1, 1, "RuntimeError", "Connection closed by peer [127.0.0.1]:31");
  cluster.Pass(4, {2}, 1);
  EXPECT_EQ(cluster.LastAnswer(), "");
  cluster.Pass(2, {2}, 1);
  EXPECT_EQ(cluster.LastAnswer(), "lost connection on 1: isolate");
}

TEST(AnswersTest, AHangIsFoundByItsIterations) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 20);
  const double last = cluster.now_;
  AgentMessage stopped{.kind = Kind::kBeat, .epoch = 1};
  stopped.step = 19;
  stopped.stuck = 3;
  while (cluster.LastAnswer().empty()) {
    cluster.Pass(0.5, {1}, 1);
    cluster.Say(2, stopped);
    ASSERT_LT(cluster.now_ - last, 60);
  }
  EXPECT_EQ(cluster.LastAnswer(), "hang on 2: restart");
  EXPECT_GT(cluster.now_ - last, 10);
  EXPECT_LT(cluster.now_ - last, 11.1);
  ASSERT_FALSE(cluster.messages.empty());
  EXPECT_TRUE(cluster.messages[0].second.kill);
}

TEST(AnswersTest, H7AnswersOnlyGoUpAndANodeThatFailsTwiceIsLeftOut) {
  CoordinatedCluster cluster = OfTwo();
  cluster.Train(1, 0, 20);
  cluster.Fail(2, 1, -9);
  EXPECT_EQ(cluster.LastAnswer(), "process exited on 2: restart");
  cluster.Join(1, 1);
  cluster.Join(2, 1);
  cluster.Pass(0.5, {}, 1);
  cluster.Train(2, 20, 400);
  cluster.Fail(2, 2, -11);
  EXPECT_EQ(cluster.LastAnswer(), "process exited on 2: isolate");
  EXPECT_THAT(cluster.lost, ElementsAre("2"));
  cluster.Join(1, 2);
  cluster.Join(2, 2);
  cluster.messages.clear();
  cluster.Pass(0.5, {}, 2);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1));
  cluster.Train(3, 420, 3, {1});
  llvm::cantFail(cluster.coordination_.Undrain("2", cluster.now_));
  cluster.Pass(0.5, {1, 2}, 3);
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1));
}

TEST(AnswersTest, ATaskThatDoesNotStartIsParkedInTheEnd) {
  CoordinatedCluster cluster = OfTwo();
  std::int64_t epoch = 1;
  for (; epoch < 10 && cluster.Heard(Told::kClose).empty(); ++epoch) {
    cluster.Pass(1, {1, 2}, epoch);
    cluster.Fail(1, epoch, -9);
    cluster.Fail(2, epoch, -9);
    if (cluster.LastAnswer().ends_with("park")) break;
    cluster.Join(1, epoch);
    cluster.Join(2, epoch);
    cluster.Pass(0.5, {}, epoch);
  }
  EXPECT_LT(epoch, 8);
  EXPECT_THAT(cluster.LastAnswer(), HasSubstr("park"));
  EXPECT_THAT(cluster.Heard(Told::kClose), ::testing::Not(IsEmpty()));
}

TEST(AnswersTest, SparesAndDrainedNodes) {
  CoordinatedCluster cluster(1);
  for (const Connection node : {1, 2, 3}) cluster.Join(node, 0, 1, 2);
  cluster.Pass(0.5, {1, 2, 3}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(1, 2));
  cluster.Train(1, 0, 3);
  llvm::cantFail(cluster.coordination_.Drain("1", cluster.now_));
  cluster.Take();
  EXPECT_THAT(cluster.Heard(Told::kRestart), ElementsAre(1, 2));
  cluster.Join(1, 1);
  cluster.Join(2, 1);
  cluster.Pass(0.5, {3}, 0);
  EXPECT_THAT(cluster.Heard(Told::kWorld), ElementsAre(2));  // And 3 is the spare one.
  llvm::Error error = cluster.coordination_.Drain("9", cluster.now_);
  EXPECT_EQ(TakeFailure(std::move(error)).message, "there is no node `9`");
}

}  // namespace
}  // namespace ucp
