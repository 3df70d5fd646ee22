#include "runtime/resources/ask_for_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

TEST(AskForMemoryTest, WhatIsThereIsGivenToAnyNumberOfThreads) {
  for (unsigned threads : {1U, 2U, 16U}) EXPECT_FALSE(static_cast<bool>(AskForMemory(1 << 20, threads)));
}

TEST(AskForMemoryTest, WhatNoSystemHasIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator ends the process";
#endif
  const FailureText failure = TakeFailure(AskForMemory(std::uint64_t{1} << 60, 2));
  EXPECT_EQ(failure.code, ErrorCode::kMemory);
  EXPECT_THAT(failure.message, testing::HasSubstr("this run with 2 threads takes up to 1.15 EB more"));
}

}  // namespace
}  // namespace ucp
