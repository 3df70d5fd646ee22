#include "compiler/support/error.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

llvm::Expected<int> Half(int number) {
  if (number % 2 != 0) return Fail(ErrorCode::kBadData, "{} is odd", number);
  return number / 2;
}

llvm::Error Quarter(int number, int& quarter) {
  UCP_ASSIGN_OR_RETURN(int half, Half(number));
  UCP_ASSIGN_OR_RETURN(quarter, Half(half));
  return llvm::Error::success();
}

TEST(ErrorTest, TravelsWithItsCodeAndGathersPhrases) {
  int quarter = 0;
  EXPECT_FALSE(static_cast<bool>(Quarter(8, quarter)));
  EXPECT_EQ(quarter, 2);
  FailureText failure = TakeFailure(AddContext(AddContext(Quarter(6, quarter), "tensor `w`"), "rank 3"));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_EQ(failure.message, "rank 3: tensor `w`: 3 is odd");
}

TEST(ErrorTest, SuccessHasNoContext) { EXPECT_FALSE(static_cast<bool>(AddContext(llvm::Error::success(), "x"))); }

TEST(ErrorTest, ForeignErrorsAreDescribedToo) {
  FailureText failure = TakeFailure(llvm::createStringError(llvm::inconvertibleErrorCode(), "from elsewhere"));
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_EQ(failure.message, "from elsewhere");
}

TEST(ErrorTest, ExitCodesSayWhoseFaultItIs) {
  EXPECT_EQ(ExitCode(ErrorCode::kUsage), 1);
  EXPECT_EQ(ExitCode(ErrorCode::kSpec), 1);
  EXPECT_EQ(ExitCode(ErrorCode::kMemory), 1);
  EXPECT_EQ(ExitCode(ErrorCode::kBadData), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kUnsupported), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kIo), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kCancelled), 130);
}

}  // namespace
}  // namespace ucp
