// NCCL itself, on a GPU. With one GPU it has one rank: NCCL gives a GPU to one rank only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/comm/nccl_ranks.h"
#include "tests/unit/runtime/comm/suite.h"

namespace ucp {
namespace {

TEST(NcclOnGpuTest, OneRank) {
  if (!std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is no NVIDIA GPU";
  auto id = NewNcclId();
  if (!id) GTEST_SKIP() << llvm::toString(id.takeError());
  auto ranks = ConnectByNccl({0, 1, *id, 0, 60});
  ASSERT_TRUE(static_cast<bool>(ranks)) << llvm::toString(ranks.takeError());
  EXPECT_THAT(RunCommunicatorSuite(**ranks, AskingToStop::kReachesNobody), testing::IsEmpty());
}

TEST(NcclOnGpuTest, WhoNeverJoinsIsNotWaitedFor) {
  if (!std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is no NVIDIA GPU";
  auto id = NewNcclId();
  if (!id) GTEST_SKIP() << llvm::toString(id.takeError());
  auto ranks = ConnectByNccl({0, 2, *id, 0, 3});
  ASSERT_FALSE(static_cast<bool>(ranks));
  EXPECT_NE(llvm::toString(ranks.takeError()).find("not done within 3 s"), std::string::npos);
}

}  // namespace
}  // namespace ucp
