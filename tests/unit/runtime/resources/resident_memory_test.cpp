// The memory of a process before it moves elements is taken off the memory that it may use, and once only.
#include "runtime/resources/resident_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/engine/buffers.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kHeld = 96 * kMiB;

// The rest of a GiB.
std::uint64_t Left(const MemoryToMove& to_move) {
  ExecutionOptions execution;
  execution.memory_bytes = 1024 * kMiB;
  llvm::cantFail(CountResidentMemory(to_move, execution));
  return execution.memory_bytes;
}

class ResidentMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "what a process holds is mostly the sanitizer's";
#endif
    if (ResidentMemoryBytes() < kHeld) GTEST_SKIP() << "the system does not say what a process holds";
  }

  const std::vector<std::byte> held_ = std::vector<std::byte>(kHeld, std::byte{1});
};

TEST_F(ResidentMemoryTest, WhatIsHeldIsTakenOff) {
  const std::uint64_t left = Left({.bytes = 30 * kMiB});
  EXPECT_LE(left, 1024 * kMiB - (kHeld - kProgramBytes));
  EXPECT_GE(left, 512 * kMiB);
}

TEST_F(ResidentMemoryTest, APlanThatIsThereIsNotCountedTwice) {
  EXPECT_GE(Left({.bytes = 90 * kMiB, .plan_bytes = 50 * kMiB}), Left({.bytes = 90 * kMiB}) + 49 * kMiB);
  EXPECT_EQ(Left({.bytes = 900 * kMiB, .plan_bytes = 800 * kMiB}), 1024 * kMiB);
  EXPECT_EQ(Left({.bytes = 900 * kMiB, .plan_bytes = 800 * kMiB, .set_aside_bytes = 5 * kMiB}), 1019 * kMiB);
}

TEST_F(ResidentMemoryTest, WhatWasTakenIsUnderTheCapToo) {
  ExecutionOptions execution;
  execution.memory_bytes = kHeld / 2;
  llvm::Error error = CountResidentMemory({.bytes = 30 * kMiB, .plan_bytes = 900 * kMiB}, execution);
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_THAT(TakeFailure(std::move(error)).message, HasSubstr("50.3 MB of memory is too little for this plan"));
  EXPECT_EQ(execution.memory_bytes, kHeld / 2);
}

}  // namespace
}  // namespace ucp
