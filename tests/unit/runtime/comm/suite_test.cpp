// The suite for this process alone, for the ranks of tests, which are threads, and for those of MPI, when mpirun starts
// this program. That of a torch.distributed group is in tests/python/test_communicator.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "tests/unit/runtime/comm/ranks_of_sockets.h"
#include "tests/unit/runtime/comm/suite.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

using ::testing::IsEmpty;

TEST(SuiteTest, OneProcess) { EXPECT_THAT(RunCommunicatorSuite(SingleProcess()), IsEmpty()); }

TEST(SuiteTest, OfThreads) {
  for (int size : {2, 3, 5}) {
    OnRanks(size, [&](Communicator& ranks) { EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty()); });
  }
}

TEST(SuiteTest, OfSockets) {
  for (int size : {2, 3}) {
    OnSocketRanks(size, [&](Communicator& ranks) { EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty()); });
  }
}

TEST(SuiteTest, OfAllGatherAlone) {
  OnRanks(4, [&](Communicator& ranks) {
    ThroughAllGather through(ranks);
    EXPECT_THAT(RunCommunicatorSuite(through), IsEmpty());
  });
}

TEST(SuiteTest, OfMpi) {
  Communicator& ranks = *llvm::cantFail(RanksOfThisRun());
  if (ranks.size() == 1) GTEST_SKIP() << "mpirun did not start this";
  EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty());
  LeaveRanks();
}

// The suite sees what is wrong.
class Wrong : public ThroughAllGather {
 public:
  using ThroughAllGather::ThroughAllGather;
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    llvm::Error error = ThroughAllGather::Deliver(sending, receiving);
    if (rank() == 1 && !receiving.empty()) receiving.front().bytes.front() ^= std::byte{1};
    return error;
  }
};

TEST(SuiteTest, ItSeesAWrongByte) {
  std::mutex mutex;
  std::vector<std::string> problems;
  OnRanks(2, [&](Communicator& ranks) {
    Wrong wrong(ranks);
    const std::vector<std::string> found = RunCommunicatorSuite(wrong);
    std::lock_guard lock(mutex);
    problems.insert(problems.end(), found.begin(), found.end());
  });
  EXPECT_THAT(problems, ::testing::Contains("rank 1 of 2: delivering 1000 bytes to all: other bytes of rank 0"));
}

TEST(SuiteTest, AThreadThatHasEndedIsNamedByWhoWaitsForIt) {
  std::vector<std::string> errors(3);
  OnRanks(3, [&](Communicator& ranks) {
    if (ranks.rank() == 1) return;
    errors[static_cast<std::size_t>(ranks.rank())] = TakeFailure(ranks.AllGather("x").takeError()).message;
  });
  EXPECT_THAT(errors, ::testing::ElementsAre("rank 1 of 3 is gone", "", "rank 1 of 3 is gone"));
}

}  // namespace
}  // namespace ucp
