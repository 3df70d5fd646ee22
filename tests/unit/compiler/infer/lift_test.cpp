// The oracle is the other direction: a random cut is taken apart into who holds what, position by position, and what is
// lifted from that must select the same positions on every rank.
#include "compiler/infer/lift.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "compiler/layout/mesh.h"

namespace ucp {
namespace {

using Held = std::vector<std::vector<Interval>>;

std::string Lifted(std::int64_t length, const Held& held) {
  auto expr = LiftDim(length, held, "tp");
  return expr ? ToString(*expr) : "nothing";
}

TEST(LiftDim, NamesTheRuleThatFits) {
  EXPECT_EQ(Lifted(8, {{{0, 8}}, {{0, 8}}}), "8");
  EXPECT_EQ(Lifted(8, {{{0, 4}}, {{4, 8}}}), "8@tp");
  EXPECT_EQ(Lifted(7, {{{0, 3}}, {{3, 5}}, {{5, 7}}}), "7@tp(spread)");
  EXPECT_EQ(Lifted(14300, {{{0, 3584}}, {{3584, 7168}}, {{7168, 10752}}, {{10752, 14300}}}), "14300@tp(spread 64)");
  EXPECT_EQ(Lifted(10, {{{0, 3}}, {{3, 6}}, {{6, 9}}, {{9, 10}}}), "10@tp(chunk)");
  EXPECT_EQ(Lifted(9, {{{0, 2}}, {{2, 9}}}), "9@tp(widths [2, 7])");
}

TEST(LiftDim, SeesPartsThatAreCutAndPartsThatAreWhole) {
  EXPECT_EQ(Lifted(16, {{{0, 4}, {8, 12}}, {{4, 8}, {12, 16}}}), "2 * (8@tp)");
  EXPECT_EQ(Lifted(20, {{{0, 8}, {16, 20}}, {{8, 20}}}), "16@tp + 4");
  EXPECT_EQ(Lifted(12, {{{0, 4}, {8, 10}}, {{4, 8}, {10, 12}}}), "8@tp + 4@tp");
}

TEST(LiftDim, SeesNeighboursThatShareAHead) {
  EXPECT_EQ(Lifted(8, {{{0, 4}}, {{0, 4}}, {{4, 8}}, {{4, 8}}}), "2@tp(replicate) * 4");
}

TEST(LiftDim, ListsBlocksWhereNoRuleFits) {
  EXPECT_EQ(Lifted(8, {{{4, 6}, {0, 2}}, {{2, 4}, {6, 8}}}), "4@tp(list [[2, 0], [1, 3]]) * 2");
}

TEST(LiftDim, RefusesHolesAndWhatIsTwiceOnOneRank) {
  EXPECT_EQ(Lifted(8, {{{0, 4}}, {{5, 8}}}), "nothing");
  EXPECT_EQ(Lifted(8, {{{0, 4}, {2, 4}}, {{4, 8}}}), "nothing");
  EXPECT_EQ(Lifted(8, {{{0, 4}}, {{4, 9}}}), "nothing");
}

Held HeldBy(const std::vector<std::vector<std::int64_t>>& positions) {
  Held held;
  for (const auto& rank : positions) {
    std::vector<Interval>& intervals = held.emplace_back();
    for (std::int64_t position : rank) {
      if (!intervals.empty() && intervals.back().end == position) {
        ++intervals.back().end;
      } else {
        intervals.push_back({position, position + 1});
      }
    }
  }
  return held;
}

// Parts with random widths, each cut or whole, one behind the other: what fused parameters look like.
std::vector<std::vector<std::int64_t>> RandomParts(std::mt19937_64& random, std::int64_t& length) {
  auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<std::vector<std::int64_t>> ranks(static_cast<std::size_t>(pick(1, 5)));
  length = 0;
  for (std::int64_t parts = pick(1, 4); parts > 0; --parts) {
    bool whole = pick(0, 3) == 0;
    std::int64_t end = length + (whole ? pick(1, 4) : 0);
    for (auto& rank : ranks) {
      std::int64_t begin = whole ? length : end;
      if (!whole) end += pick(0, 4);
      for (std::int64_t at = begin; at < end; ++at) rank.push_back(at);
    }
    length = end;
  }
  return ranks;
}

TEST(LiftDim, SelectsWhatWasHeld) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::int64_t length = 0;
    auto positions = RandomParts(random, length);
    if (length == 0) continue;
    if (round % 7 == 0) std::shuffle(positions.front().begin(), positions.front().end(), random);
    auto expr = LiftDim(length, HeldBy(positions), "tp");
    ASSERT_TRUE(expr);
    Mesh mesh{{{"tp", static_cast<std::int64_t>(positions.size())}}};
    for (std::size_t rank = 0; rank < positions.size(); ++rank) {
      Coordinate at;
      at.at["tp"] = static_cast<std::int64_t>(rank);
      auto selection = Select(*expr, mesh, at);
      ASSERT_TRUE(static_cast<bool>(selection)) << ToString(*expr) << llvm::toString(selection.takeError());
      std::vector<std::int64_t> selected;
      for (const ucp::Run& run : selection->runs()) {
        for (std::int64_t i = 0; i < run.length; ++i) selected.push_back(run.logical_begin + i);
      }
      ASSERT_EQ(selected, positions[rank]) << ToString(*expr);
    }
  }
}

}  // namespace
}  // namespace ucp
