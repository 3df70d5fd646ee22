#include "runtime/memory_tier/tier_times.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

// GPT-2 of 100 billion parameters on 16 machines, as in Gemini's section 7.
TierRequest OfThePaper() {
  return {.bytes = 75.2e9,
          .network = 400e9 / 8,
          .machines = 16,
          .copies = 2,
          .iteration = 62,
          .idle = std::nullopt,
          .storage = 20e9 / 8};
}

TEST(TierTimesTest, FiguresOfThePaper) {
  const TierTimes times = TimesOf(OfThePaper());
  EXPECT_NEAR(times.sending, 1.5, 0.01);
  EXPECT_EQ(times.interval, 1);
  EXPECT_NEAR(times.own_memory->seconds(), 93, 0.1);
  EXPECT_NEAR(times.others_memory->seconds(), 94.5, 0.1);
  EXPECT_NEAR(times.storage_often->seconds(), 1210, 1);
  EXPECT_NEAR(times.storage_often->period, 496, 0.1);
  EXPECT_NEAR(times.storage_seldom->seconds(), 6362, 1);
}

// 42 minutes to storage, one checkpoint after the other: 105 minutes.
TEST(TierTimesTest, MegatronTuringNlg) {
  const TierTimes times = TimesOf({.bytes = 42 * 60, .network = 1, .iteration = 1, .idle = std::nullopt, .storage = 1});
  EXPECT_NEAR(times.storage_often->seconds() / 60, 105, 0.1);
}

TEST(TierTimesTest, IntervalFollowsFromTheIdleTime) {
  TierRequest request = OfThePaper();
  request.copies = 3;  // Three seconds.
  request.idle = 10;
  EXPECT_EQ(TimesOf(request).interval, 1);
  request.idle = 1;
  EXPECT_EQ(TimesOf(request).interval, 4);
  EXPECT_NEAR(TimesOf(request).own_memory->period, 4 * 62, 0.1);
  request.iteration = std::nullopt;
  EXPECT_FALSE(TimesOf(request).interval.has_value());
}

}  // namespace
}  // namespace ucp
