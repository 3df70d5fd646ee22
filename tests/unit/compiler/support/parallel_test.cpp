#include "compiler/support/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

TEST(ParallelTest, AllThreadsHeedWhatTheCallerHeeds) {
  std::atomic<bool> interrupted = true;
  HeedInterrupts(&interrupted);
  std::atomic<int> heeded = 0;
  llvm::Error error = ForEachInParallel(2, {2, nullptr}, [&](unsigned, std::uint64_t) {
    ++heeded;
    while (heeded < 2) std::this_thread::yield();  // Each thread has one.
    llvm::Error interruption = CheckInterrupted();
    EXPECT_TRUE(static_cast<bool>(interruption));
    return interruption;
  });
  HeedInterrupts(nullptr);
  EXPECT_EQ(Describe(std::move(error)).code, ErrorCode::kCancelled);
}

TEST(ParallelTest, EveryItemOnceForAnyNumberOfThreads) {
  for (unsigned threads : {0U, 1U, 2U, 7U}) {
    std::vector<std::atomic<int>> calls(1000);
    llvm::Error error = ForEachInParallel(calls.size(), {threads, nullptr}, [&](unsigned thread, std::uint64_t item) {
      EXPECT_LT(thread, std::max(threads, 1U));
      ++calls[item];
      return llvm::Error::success();
    });
    ASSERT_FALSE(static_cast<bool>(error));
    for (const std::atomic<int>& count : calls) ASSERT_EQ(count, 1);
  }
}

TEST(ParallelTest, TheFirstFailingItemIsReportedWhateverTheTiming) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    llvm::Error error = ForEachInParallel(100, {4, nullptr}, [&](unsigned, std::uint64_t item) -> llvm::Error {
      if (item < 20) return llvm::Error::success();
      if (item == 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // Others fail before it does.
      return Fail(ErrorCode::kBadData, "item {}", item);
    });
    ASSERT_TRUE(static_cast<bool>(error));
    EXPECT_EQ(Describe(std::move(error)).message, "item 20");
  }
}

TEST(ParallelTest, CancelledStopsAndSaysSo) {
  std::atomic<bool> cancelled = false;
  std::atomic<int> done = 0;
  llvm::Error error = ForEachInParallel(1000, {2, &cancelled}, [&](unsigned, std::uint64_t) {
    if (++done == 10) cancelled = true;
    return llvm::Error::success();
  });
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_EQ(Describe(std::move(error)).code, ErrorCode::kCancelled);
  EXPECT_LT(done, 20);
}

TEST(ParallelTest, CancelledAfterTheLastItemIsSuccess) {
  std::atomic<bool> cancelled = false;
  llvm::Error error = ForEachInParallel(1, {1, &cancelled}, [&](unsigned, std::uint64_t) {
    cancelled = true;
    return llvm::Error::success();
  });
  EXPECT_FALSE(static_cast<bool>(error));
}

// Pauses now and then, and each time all items before the result are done, and none behind it.
TEST(ParallelTest, PausedIsGoneOnFrom) {
  constexpr std::uint64_t kItems = 2000;
  for (unsigned threads : {1U, 2U, 7U}) {
    std::vector<std::atomic<int>> calls(kItems);
    int pauses = 0;
    for (std::uint64_t next = 0; next < kItems; ++pauses) {
      std::atomic<bool> pause = false;
      const std::uint64_t first = next;
      llvm::Expected<std::uint64_t> result =
          ForEachUntilPaused(first, kItems, {threads, nullptr}, pause, [&](unsigned, std::uint64_t item) {
            ++calls[item];
            if (item >= first + 100) pause = true;
            return llvm::Error::success();
          });
      next = llvm::cantFail(std::move(result));
      ASSERT_GT(next, first);
      for (std::uint64_t item = 0; item < kItems; ++item) ASSERT_EQ(calls[item], item < next ? 1 : 0);
    }
    EXPECT_GE(pauses, 5);
  }
}

TEST(ParallelTest, CancelledIsAPauseToWhoCanPause) {
  std::atomic<bool> pause = false;
  std::atomic<bool> cancelled = false;
  auto work = [&](unsigned, std::uint64_t item) {
    if (item == 10) cancelled = true;
    return llvm::Error::success();
  };
  EXPECT_EQ(llvm::cantFail(ForEachUntilPaused(3, 1000, {1, &cancelled}, pause, work)), 11U);
  EXPECT_EQ(llvm::cantFail(ForEachUntilPaused(11, 1000, {1, &cancelled}, pause, work)), 11U);
  EXPECT_EQ(llvm::cantFail(ForEachUntilPaused(1000, 1000, {1, &cancelled}, pause, work)), 1000U);
}

TEST(ParallelTest, StretchesAreBegunAtTheSameTimeAndGoneThroughInOrder) {
  auto order = [](std::uint64_t items, std::uint64_t stretches) {
    std::vector<std::uint64_t> begun;
    for (std::uint64_t number = 0; number < items; ++number) begun.push_back(InStretches(number, items, stretches));
    return begun;
  };
  EXPECT_THAT(order(7, 1), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(order(7, 2), testing::ElementsAre(0, 4, 1, 5, 2, 6, 3));
  EXPECT_THAT(order(8, 3), testing::ElementsAre(0, 3, 6, 1, 4, 7, 2, 5));
  EXPECT_THAT(order(2, 5), testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace ucp
