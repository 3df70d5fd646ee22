#include "compiler/support/interruption.h"

#include <gtest/gtest.h>

#include <thread>

#include "compiler/support/error.h"

namespace ucp {
namespace {

bool IsInterrupted() {
  llvm::Error error = CheckInterrupted();
  if (!error) return false;
  const FailureText failure = TakeFailure(std::move(error));
  EXPECT_EQ(failure.code, ErrorCode::kCancelled);
  EXPECT_EQ(failure.message, "interrupted");
  return true;
}

TEST(InterruptionTest, AThreadHeedsItsOwnFlag) {
  EXPECT_FALSE(IsInterrupted());
  std::atomic<bool> interrupted = false;
  HeedInterrupts(&interrupted);
  EXPECT_FALSE(IsInterrupted());
  interrupted = true;
  EXPECT_TRUE(IsInterrupted());
  std::thread([] { EXPECT_FALSE(IsInterrupted()); }).join();
  HeedInterrupts(nullptr);
  EXPECT_FALSE(IsInterrupted());
}

}  // namespace
}  // namespace ucp
