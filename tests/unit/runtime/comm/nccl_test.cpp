// The ranks of NCCL, on a stand-in for NCCL and for the GPU: what they give each other, and what becomes of ranks that
// do not come. Beside this program lies the plugin, built for the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "compiler/support/error.h"
#include "compiler/support/own_file.h"
#include "runtime/comm/nccl_ranks.h"
#include "tests/unit/runtime/comm/suite.h"

namespace ucp {
namespace {

using testing::HasSubstr;

std::string StandIn() { return OwnFile().parent_path() / "libnccl.so.2"; }

void OnNccl(int size, double seconds, const std::function<void(Communicator&)>& work) {
  const std::string id = llvm::cantFail(NewNcclId(StandIn()));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto ranks = ConnectByNccl({rank, size, id, rank, seconds, StandIn()});
      ASSERT_TRUE(static_cast<bool>(ranks)) << llvm::toString(ranks.takeError());
      EXPECT_EQ((*ranks)->rank(), rank);
      EXPECT_EQ((*ranks)->size(), size);
      work(**ranks);
    });
  }
}

std::string SentenceOf(llvm::Error error) {
  if (!error) return "success";
  FailureText failure = TakeFailure(std::move(error));
  return fmt::format("{} {}", ExitCode(failure.code), failure.message);
}

TEST(NcclTest, DoesWhatEveryCommunicatorDoes) {
  for (int size : {1, 4}) {
    OnNccl(size, 60, [](Communicator& ranks) {
      EXPECT_THAT(RunCommunicatorSuite(ranks, AskingToStop::kReachesNobody), testing::IsEmpty());
    });
  }
}

TEST(NcclTest, ARankThatDoesNotComeIsNotWaitedForAndTheOthersAreTold) {
  OnNccl(3, 0.5, [](Communicator& ranks) {
    if (ranks.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      EXPECT_THAT(SentenceOf(ranks.AllGather("late").takeError()),
                  HasSubstr("remote process exited or there was a network error"));
      return;
    }
    const std::string sentence = SentenceOf(ranks.AllGather("mine").takeError());
    const std::string of = fmt::format("2 rank {} of 3 cannot reach the others through NCCL: ", ranks.rank());
    EXPECT_THAT(sentence,
                testing::AnyOf(of + "the other ranks: not done within 0.5 s; the communicator of NCCL is aborted",
                               of + "the other ranks: remote process exited or there was a network error; the "
                                    "communicator of NCCL is aborted"));
    EXPECT_EQ(SentenceOf(ranks.AllGather("again").takeError()), of + "the communicator of NCCL was aborted before");
  });
}

TEST(NcclTest, WhoNeverJoinsIsNotWaitedFor) {
  const std::string id = llvm::cantFail(NewNcclId(StandIn()));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(SentenceOf(ConnectByNccl({0, 2, id, 0, 0.25, StandIn()}).takeError()),
            "2 rank 0 of 2 cannot join the others through NCCL: ncclCommInitRank: not done within 0.25 s; the "
            "communicator of NCCL is aborted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(NcclTest, RequestsThatMakeNoSense) {
  const std::string id = llvm::cantFail(NewNcclId(StandIn()));
  EXPECT_EQ(SentenceOf(ConnectByNccl({2, 2, id, 0, 1, StandIn()}).takeError()),
            "1 rank 2 of 2 cannot join, ranks are counted from 0");
  EXPECT_EQ(SentenceOf(ConnectByNccl({0, 2, "id", 0, 1, StandIn()}).takeError()),
            "1 an id of NCCL has 128 bytes, and this one 2");
  EXPECT_EQ(SentenceOf(ConnectByNccl({0, 1, id, 99, 1, StandIn()}).takeError()),
            "2 rank 0 of 1 cannot join the others through NCCL: cudaSetDevice: invalid device ordinal");
}

}  // namespace
}  // namespace ucp
