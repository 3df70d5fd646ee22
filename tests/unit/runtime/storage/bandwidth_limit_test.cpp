#include "runtime/storage/bandwidth_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ucp {
namespace {

using Clock = BandwidthLimit::Clock;
using std::chrono::milliseconds;

TEST(BandwidthLimitTest, MovesStandInLine) {
  BandwidthLimit limit(1000, nullptr);
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(limit.Reserve(500, now), now);
  EXPECT_EQ(limit.Reserve(250, now), now + milliseconds(500));
  EXPECT_EQ(limit.Reserve(1, now), now + milliseconds(750));
}

TEST(BandwidthLimitTest, IdleTimeIsNotSavedUp) {
  BandwidthLimit limit(1000, nullptr);
  const Clock::time_point now = Clock::now();
  limit.Reserve(100, now);
  const Clock::time_point later = now + std::chrono::hours(1);
  EXPECT_EQ(limit.Reserve(100, later), later);
  EXPECT_EQ(limit.Reserve(100, later), later + milliseconds(100));
}

TEST(BandwidthLimitTest, ThreadsShareIt) {
  BandwidthLimit limit(1'000'000, nullptr);
  const Clock::time_point begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) limit.Wait(10'000);
      });
    }
  }
  EXPECT_GE(Clock::now() - begin, milliseconds(190));  // The last of 200 kB begins behind 190 kB.
}

TEST(BandwidthLimitTest, AnInterruptEndsTheWait) {
  std::atomic<bool> cancelled = false;
  BandwidthLimit limit(1, &cancelled);
  limit.Wait(1'000'000);
  std::jthread interrupt([&] {
    std::this_thread::sleep_for(milliseconds(20));
    cancelled = true;
  });
  const Clock::time_point begin = Clock::now();
  limit.Wait(1);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace ucp
