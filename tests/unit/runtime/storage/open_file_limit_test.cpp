#include "runtime/storage/open_file_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

TEST(OpenFileLimitTest, EveryThreadHasOneOfEach) {
  for (unsigned threads : {1U, 2U, 16U, 256U}) {
    bool is_enough = false;
    for (std::uint64_t limit = 0; limit < 1100; ++limit) {
      llvm::Expected<OpenFileShares> shares = DivideOpenFiles(limit, threads);
      if (!shares) {
        ASSERT_FALSE(is_enough) << limit;
        FailureText failure = TakeFailure(shares.takeError());
        EXPECT_EQ(failure.code, ErrorCode::kUsage);
        continue;
      }
      is_enough = true;
      ASSERT_GE(shares->reading, threads);
      ASSERT_GE(shares->writing, std::min(threads, 128U));
      ASSERT_LE(shares->reading + shares->writing + 16, limit);
    }
    EXPECT_TRUE(is_enough);
  }
}

TEST(OpenFileLimitTest, MoreThanIsOfUseIsNotTaken) {
  OpenFileShares shares = llvm::cantFail(DivideOpenFiles(1 << 20, 2));
  EXPECT_EQ(shares.reading, 256U);
  EXPECT_EQ(shares.writing, 128U);
}

TEST(OpenFileLimitTest, TooFewAreRefusedWithBothNumbers) {
  EXPECT_EQ(TakeFailure(DivideOpenFiles(6, 2).takeError()).message,
            "this process may have 6 files open at once (`ulimit -n`), and a conversion with 2 threads needs 22; raise "
            "the limit or lower threads");
}

}  // namespace
}  // namespace ucp
