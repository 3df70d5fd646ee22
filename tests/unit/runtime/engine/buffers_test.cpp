#include "runtime/engine/buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "tests/unit/runtime/executor/small_conversion.h"

namespace ucp {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

TEST(BuffersTest, AThreadGetsNoMoreThanServesIt) {
  BufferSizes sizes = llvm::cantFail(DivideMemory(Plan{}, 4, 1024 * kMiB, 2 * kMiB));
  EXPECT_EQ(sizes.chunk_bytes, 2 * kMiB);
  EXPECT_LE(sizes.scratch_bytes, 2 * kMiB);
}

TEST(BuffersTest, EveryBudgetThatIsAcceptedIsKept) {
  for (unsigned threads : {1U, 2U, 16U, 64U}) {
    for (std::uint64_t memory = kMiB; memory < 256 * kMiB; memory += kMiB) {
      llvm::Expected<BufferSizes> sizes = DivideMemory(Plan{}, threads, memory, 2 * kMiB);
      if (!sizes) {
        EXPECT_THAT(TakeFailure(sizes.takeError()).message, HasSubstr("raise memory or lower threads"));
        continue;
      }
      EXPECT_GE(sizes->chunk_bytes, 32U << 10);
      EXPECT_GE(sizes->scratch_bytes, 16U << 10);
      EXPECT_LT(threads * (sizes->chunk_bytes + sizes->scratch_bytes), memory);
    }
  }
  EXPECT_TRUE(static_cast<bool>(DivideMemory(Plan{}, 2, 64 * kMiB, 2 * kMiB)));
}

TEST(BuffersTest, TheNumberInTheMessageWouldDo) {
  FailureText failure = TakeFailure(DivideMemory(Plan{}, 2, 1, 2 * kMiB).takeError());
  std::size_t begin = failure.message.find('(') + 1;
  std::uint64_t needed = std::stoull(failure.message.substr(begin));
  EXPECT_TRUE(static_cast<bool>(DivideMemory(Plan{}, 2, needed, 2 * kMiB)));
  llvm::Expected<BufferSizes> less = DivideMemory(Plan{}, 2, needed - 1, 2 * kMiB);
  EXPECT_FALSE(static_cast<bool>(less));
  llvm::consumeError(less.takeError());
}

TEST(BuffersTest, AChunkStandsInMemoryAsInItsFile) {
  const BufferSizes sizes{100'000, 5'000, 3'000, 0, 0};
  const Buffers buffers(sizes, 3);
  for (unsigned thread = 0; thread < 3; ++thread) {
    const std::span<std::byte> scratch = buffers.scratch()[thread];
    std::ranges::fill(scratch, std::byte{1});
    std::ranges::fill(buffers.term(thread), std::byte{2});
    for (std::uint64_t offset = 0; offset < 10'000; offset += 8) {
      const std::span<std::byte> chunk = buffers.chunk(thread, offset);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(chunk.data()) % 4096, offset % 4096);
      ASSERT_EQ(chunk.size(), sizes.chunk_bytes);
      chunk.front() = chunk.back() = std::byte{3};
    }
    // Where numbers would not stand as they have to, it is anywhere.
    const std::span<std::byte> other = buffers.chunk(thread, 4099);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.data()) % 8, 0U);
    EXPECT_EQ(other.size(), sizes.chunk_bytes);
    other.back() = std::byte{3};
    EXPECT_EQ(std::ranges::count(scratch, std::byte{1}), 5'000);
    EXPECT_EQ(std::ranges::count(buffers.term(thread), std::byte{2}), 3'000);
  }
}

}  // namespace
}  // namespace ucp
