#include "runtime/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "runtime/comm/nodes.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

// Each rank's result of the ranks' outcomes; "" is success.
std::vector<std::string> Agreed(const std::vector<FailureText>& outcomes) {
  std::vector<std::string> agreed(outcomes.size());
  OnRanks(static_cast<int>(outcomes.size()), [&](Communicator& ranks) {
    auto rank = static_cast<std::size_t>(ranks.rank());
    const FailureText& mine = outcomes[rank];
    llvm::Error error =
        Agree(ranks, mine.message.empty() ? llvm::Error::success() : MakeError(mine.code, mine.message));
    if (!error) return;
    FailureText failure = TakeFailure(std::move(error));
    agreed[rank] = fmt::format("{} {}", ExitCode(failure.code), failure.message);
  });
  return agreed;
}

const FailureText kNone = {ErrorCode::kIo, ""};

TEST(CommunicatorTest, OneProcessIsAllRanks) {
  auto all = SingleProcess().AllGather("mine");
  ASSERT_TRUE(static_cast<bool>(all));
  EXPECT_THAT(*all, testing::ElementsAre("mine"));
  llvm::Error error = Agree(SingleProcess(), Fail(ErrorCode::kBadData, "it is damaged"));
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_EQ(TakeFailure(std::move(error)).message, "it is damaged");
}

TEST(CommunicatorTest, AllHaveWhatTheFirstRankGives) {
  std::vector<std::string> got(3);
  OnRanks(3, [&](Communicator& ranks) {
    auto text = FromFirstRank(ranks, "of " + std::to_string(ranks.rank()));
    got[static_cast<std::size_t>(ranks.rank())] = text ? *text : llvm::toString(text.takeError());
  });
  EXPECT_THAT(got, testing::Each("of 0"));
}

TEST(CommunicatorTest, NodesAreNumberedByTheirLowestRank) {
  EXPECT_THAT(NumberNodes({"b", "a", "b", "c", "a"}), testing::ElementsAre(0, 1, 0, 2, 1));
  std::vector<std::vector<int>> nodes(3);  // Threads of one process are on one machine.
  OnRanks(3, [&](Communicator& ranks) {
    nodes[static_cast<std::size_t>(ranks.rank())] = llvm::cantFail(NodesOfRanks(ranks));
  });
  EXPECT_THAT(nodes, testing::Each(testing::ElementsAre(0, 0, 0)));
}

TEST(CommunicatorTest, OneRanksErrorIsEveryRanks) {
  EXPECT_THAT(Agreed({kNone, kNone, kNone}), testing::Each(""));
  EXPECT_THAT(Agreed({kNone, {ErrorCode::kBadData, "damaged"}, {ErrorCode::kIo, "full"}}),
              testing::Each("2 rank 1 of 3: damaged"));
}

TEST(CommunicatorTest, AFailureIsMoreThanACancellation) {
  EXPECT_THAT(Agreed({{ErrorCode::kCancelled, "cancelled"}, {ErrorCode::kIo, "full"}}),
              testing::Each("2 rank 1 of 2: full"));
  EXPECT_THAT(Agreed({kNone, {ErrorCode::kCancelled, "cancelled"}}), testing::Each("130 cancelled"));
}

}  // namespace
}  // namespace ucp
