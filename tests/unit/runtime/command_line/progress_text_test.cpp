#include "runtime/command_line/progress_text.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

constexpr ProgressNumbers kNumbers{1'200'000'000, 2'900'000'000, 12, 40, 1.5, 0};

TEST(ProgressTextTest, WhatFits) {
  EXPECT_EQ(ProgressText(kNumbers, 80), " 41 %  1.20 GB of 2.90 GB, 0.80 GB/s, 2 s left, 12 of 40 files");
  EXPECT_EQ(ProgressText(kNumbers, 60), " 41 %  1.20 GB of 2.90 GB, 0.80 GB/s, 2 s left");
  EXPECT_EQ(ProgressText(kNumbers, 40), " 41 %  1.20 GB of 2.90 GB, 2 s left");
  EXPECT_EQ(ProgressText(kNumbers, 20), " 41 %  2 s left");
  EXPECT_EQ(ProgressText(kNumbers, 5), " 41 %");
}

TEST(ProgressTextTest, NeverWiderThanAsked) {
  for (std::uint64_t total : {std::uint64_t{1}, std::uint64_t{999'999}, std::uint64_t{1} << 50}) {
    for (std::uint64_t part = 0; part <= 10; ++part) {
      const ProgressNumbers numbers{total / 10 * part, total, 123'456, 999'999, 0.001 * static_cast<double>(part), 0};
      for (std::size_t columns = 5; columns <= 120; ++columns) {
        EXPECT_LE(ProgressText(numbers, columns).size(), columns);
      }
      EXPECT_LE(ProgressText(numbers, 120).size(), 80U);  // All of it fits an ordinary terminal.
    }
  }
}

TEST(ProgressTextTest, TimeLeft) {
  EXPECT_EQ(ProgressText({1, 46, 0, 0, 1, 0}, 16), "  2 %  45 s left");
  EXPECT_EQ(ProgressText({1, 201, 0, 0, 1, 0}, 24), "  0 %  3 min 20 s left");
  EXPECT_EQ(ProgressText({1, 7501, 0, 0, 1, 0}, 23), "  0 %  2 h 5 min left");
  EXPECT_EQ(ProgressText({0, 46, 0, 0, 1, 0}, 40), "  0 %  0 B of 46 B, 0.00 MB/s");  // Nobody knows yet.
}

}  // namespace
}  // namespace ucp
