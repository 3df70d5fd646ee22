#include "compiler/support/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/out_of_memory.h"

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
  EXPECT_EQ(TakeFailure(std::move(error)).code, ErrorCode::kCancelled);
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
    EXPECT_EQ(TakeFailure(std::move(error)).message, "item 20");
  }
}

TEST(ParallelTest, AFailedAllocationIsAnErrorOfItsOwn) {
  for (unsigned threads : {1U, 4U}) {
    auto work = [](unsigned, std::uint64_t item) -> llvm::Error {
      if (item == 7) throw std::bad_alloc();
      return llvm::Error::success();
    };
    const FailureText failure = TakeFailure(ForEachInParallel(100, {.threads = threads}, work));
    EXPECT_EQ(failure.code, ErrorCode::kMemory);
    EXPECT_EQ(failure.message, kOutOfMemory);
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
  EXPECT_EQ(TakeFailure(std::move(error)).code, ErrorCode::kCancelled);
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

TEST(ParallelTest, StretchesAreOneForEachThread) {
  auto begins = [](std::uint64_t items, unsigned threads) {
    std::vector<std::uint64_t> numbers;
    std::uint64_t end = 0;
    for (const WorkStretch& stretch : CutIntoStretches(items, threads)) {
      EXPECT_EQ(stretch.begin, end);
      EXPECT_EQ(stretch.next, stretch.begin);
      numbers.push_back(stretch.begin);
      end = stretch.end;
    }
    EXPECT_EQ(end, items);
    return numbers;
  };
  EXPECT_THAT(begins(7, 0), testing::ElementsAre(0));
  EXPECT_THAT(begins(7, 2), testing::ElementsAre(0, 4));
  EXPECT_THAT(begins(8, 3), testing::ElementsAre(0, 3, 6));
  EXPECT_THAT(begins(2, 5), testing::ElementsAre(0, 1, 2, 2, 2));
}

// Nobody goes on before all have begun.
TEST(ParallelTest, EachThreadBeginsAStretchOfItsOwn) {
  constexpr unsigned kThreads = 3;
  std::vector<std::vector<std::uint64_t>> items(kThreads);
  std::atomic<unsigned> begun = 0;
  llvm::Error error = ForEachInStretches(30, {kThreads, nullptr}, [&](unsigned thread, std::uint64_t item) {
    items[thread].push_back(item);
    if (items[thread].size() == 1) ++begun;
    while (begun < kThreads) std::this_thread::yield();
    return llvm::Error::success();
  });
  ASSERT_FALSE(static_cast<bool>(error));
  for (unsigned thread = 0; thread < kThreads; ++thread) EXPECT_EQ(items[thread].front(), thread * 10);
}

TEST(ParallelTest, WhoIsDoneHelpsOthers) {
  std::vector<std::atomic<int>> calls(20);
  std::atomic<int> done = 0;
  llvm::Error error = ForEachInStretches(calls.size(), {2, nullptr}, [&](unsigned, std::uint64_t item) {
    while (item == 0 && done < 19) std::this_thread::yield();  // Until the other thread has done all the rest.
    ++calls[item];
    ++done;
    return llvm::Error::success();
  });
  ASSERT_FALSE(static_cast<bool>(error));
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
}

// Item 62 is the 13th of its stretch; the first of the others that fail is the 15th of its own.
TEST(ParallelTest, TheFirstFailingItemOfStretchesIsReportedWhateverTheTiming) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    llvm::Error error = ForEachInStretches(100, {4, nullptr}, [&](unsigned, std::uint64_t item) -> llvm::Error {
      if (item != 62 && item % 25 < 14) return llvm::Error::success();
      if (item == 62) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // Others fail before it does.
      return Fail(ErrorCode::kBadData, "item {}", item);
    });
    ASSERT_TRUE(static_cast<bool>(error));
    EXPECT_EQ(TakeFailure(std::move(error)).message, "item 62");
  }
}

std::uint64_t ItemsDone(const std::vector<WorkStretch>& stretches) {
  std::uint64_t done = 0;
  for (const WorkStretch& stretch : stretches) done += stretch.next - stretch.begin;
  return done;
}

// Pauses now and then, and each time what the stretches say is done, and nothing else is.
TEST(ParallelTest, PausedIsGoneOnFrom) {
  constexpr std::uint64_t kItems = 2000;
  for (unsigned threads : {1U, 2U, 7U}) {
    std::vector<std::atomic<int>> calls(kItems);
    std::vector<WorkStretch> stretches = CutIntoStretches(kItems, threads);
    int pauses = 0;
    for (std::uint64_t done = 0; done < kItems; ++pauses) {
      std::atomic<bool> pause = false;
      std::atomic<int> now = 0;
      llvm::cantFail(ForEachUntilPaused(stretches, {threads, nullptr}, pause, [&](unsigned, std::uint64_t item) {
        ++calls[item];
        if (++now >= 100) pause = true;
        return llvm::Error::success();
      }));
      ASSERT_GT(ItemsDone(stretches), done);
      done = ItemsDone(stretches);
      for (const WorkStretch& stretch : stretches) {
        for (std::uint64_t item = stretch.begin; item < stretch.end; ++item) {
          ASSERT_EQ(calls[item], item < stretch.next ? 1 : 0);
        }
      }
    }
    EXPECT_GE(pauses, 5);
  }
}

TEST(ParallelTest, AfterAnErrorStretchesAreAsTheyWere) {
  const std::atomic<bool> pause = false;
  std::vector<WorkStretch> stretches = CutIntoStretches(100, 2);
  stretches[1].next = 60;
  llvm::Error error =
      ForEachUntilPaused(stretches, {2, nullptr}, pause, [&](unsigned, std::uint64_t item) -> llvm::Error {
        return item == 70 ? Fail(ErrorCode::kCancelled, "interrupted") : llvm::Error::success();
      });
  EXPECT_EQ(TakeFailure(std::move(error)).code, ErrorCode::kCancelled);
  EXPECT_EQ(stretches[0].next, 0U);
  EXPECT_EQ(stretches[1].next, 60U);
}

TEST(ParallelTest, CancelledIsAPauseToWhoCanPause) {
  const std::atomic<bool> pause = false;
  std::atomic<bool> cancelled = false;
  std::vector<WorkStretch> stretches = CutIntoStretches(1000, 1);
  for (int repeat = 0; repeat < 2; ++repeat) {  // Whoever is cancelled does not begin again.
    llvm::cantFail(ForEachUntilPaused(stretches, {1, &cancelled}, pause, [&](unsigned, std::uint64_t item) {
      if (item == 10) cancelled = true;
      return llvm::Error::success();
    }));
    EXPECT_EQ(ItemsDone(stretches), 11U);
  }
}

}  // namespace
}  // namespace ucp
