#include "runtime/command_line/progress_output.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ProgressOutput::Clock::time_point kStart;
constexpr ProgressNumbers kHalf{500'000'000, 1'000'000'000, 1, 2, 0, 0};

TEST(ProgressOutputTest, ALineThatMovesOnATerminal) {
  ProgressOutput output(80, kStart);
  EXPECT_EQ(output.Tell({0, kHalf.bytes_total, 0, 2, 0, 0}, kStart), std::nullopt);
  EXPECT_EQ(output.Tell(kHalf, kStart + milliseconds(199)), std::nullopt);
  EXPECT_EQ(output.Clear(), std::nullopt);
  EXPECT_EQ(output.Tell(kHalf, kStart + seconds(1)),
            "\r 50 %  500.0 MB of 1.00 GB, 0.50 GB/s, 1 s left, 1 of 2 files\x1b[K");
  EXPECT_EQ(output.Tell(kHalf, kStart + seconds(2)),
            "\r 50 %  500.0 MB of 1.00 GB, 0.25 GB/s, 2 s left, 1 of 2 files\x1b[K");
  EXPECT_EQ(output.Clear(), "\r\x1b[K");
  EXPECT_EQ(output.Clear(), std::nullopt);
}

TEST(ProgressOutputTest, ATerminalThatIsMadeNarrower) {
  ProgressOutput output(80, kStart);
  output.Tell({0, kHalf.bytes_total, 0, 2, 0, 0}, kStart);
  output.Resize(30);
  EXPECT_EQ(output.Tell(kHalf, kStart + seconds(1)), "\r 50 %  1 s left\x1b[K");
}

TEST(ProgressOutputTest, WhatAnEarlierRunMovedIsNoSpeedOfThisOne) {
  ProgressOutput output(80, kStart);
  output.Tell({400'000'000, 1'000'000'000, 0, 2, 0, 0}, kStart);
  EXPECT_EQ(output.Tell(kHalf, kStart + seconds(1)),
            "\r 50 %  500.0 MB of 1.00 GB, 0.10 GB/s, 5 s left, 1 of 2 files\x1b[K");
}

TEST(ProgressOutputTest, TheLastColumnStaysFree) {
  ProgressOutput output(26, kStart);
  const std::string line = *output.Tell(kHalf, kStart + seconds(1));
  EXPECT_LE(line.size(), 25 + std::string("\r\x1b[K").size());
}

TEST(ProgressOutputTest, FewLinesInAPipeAndNoneForAShortRun) {
  ProgressOutput output(std::nullopt, kStart);
  int lines = 0;
  for (int tenth = 0; tenth < 99; ++tenth) {
    if (output.Tell(kHalf, kStart + milliseconds(100 * tenth))) ++lines;
  }
  EXPECT_EQ(lines, 0);
  for (int tenth = 100; tenth <= 350; ++tenth) {
    if (std::optional<std::string> line = output.Tell(kHalf, kStart + milliseconds(100 * tenth))) {
      ++lines;
      EXPECT_TRUE(line->starts_with(" 50 %  500.0 MB of 1.00 GB")) << *line;
      EXPECT_TRUE(line->ends_with("\n"));
    }
  }
  EXPECT_EQ(lines, 3);
  EXPECT_EQ(output.Clear(), std::nullopt);
}

TEST(ProgressOutputTest, NothingIsSaidOfNothing) {
  ProgressOutput output(80, kStart);
  EXPECT_EQ(output.Tell({}, kStart + seconds(5)), std::nullopt);
}

}  // namespace
}  // namespace ucp
