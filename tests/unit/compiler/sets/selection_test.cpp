#include "compiler/sets/selection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/unit/compiler/sets/random_selection.h"

namespace ucp {
namespace {

using oracle::Pick;
using oracle::Random;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kTrials = 3000;

TEST(SelectionTest, JoinsRunsThatContinue) {
  Selection selection;
  selection.Append(0, 2);
  selection.Append(2, 2);
  selection.AppendPadding(1);
  selection.Append(4, 1);
  selection.Append(8, 0);
  EXPECT_THAT(selection.runs(), ElementsAre(ucp::Run{0, 0, 4}, ucp::Run{5, 4, 1}));
  EXPECT_EQ(selection.local_length(), 6);
  EXPECT_EQ(selection.real_length(), 5);
  EXPECT_EQ(ToString(selection), "0..4 pad 1 4..5");
  EXPECT_EQ(ToString(Selection()), "nothing");
}

TEST(SelectionTest, KnowsWhetherItIsWholeAndIncreasing) {
  EXPECT_TRUE(Selection::Whole(4).IsWhole(4));
  EXPECT_FALSE(Selection::Whole(4).IsWhole(5));
  EXPECT_TRUE(Selection::Whole(4).IsIncreasing());
  EXPECT_FALSE(FromPositions({2, 1}).IsIncreasing());
  EXPECT_FALSE(FromPositions({1, 1}).IsIncreasing());
  EXPECT_FALSE(FromPositions({0, -1}).IsWhole(1));
}

TEST(SelectionTest, SliceKeepsItsPlaces) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < kTrials; ++i) {
    Positions positions = RandomPositions(random, Pick(random, 0, 20));
    std::int64_t begin = Pick(random, 0, std::ssize(positions));
    std::int64_t end = Pick(random, begin, std::ssize(positions));
    Positions expected(positions.begin() + begin, positions.begin() + end);
    ASSERT_EQ(ToPositions(FromPositions(positions).Slice(begin, end)), expected);
  }
}

TEST(SelectionTest, KeepCommonAndKeepRestTakeTheSelectionApart) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < kTrials; ++i) {
    Positions mine = RandomPositions(random, 20);
    Positions theirs = RandomPositions(random, 20);
    Positions common = mine;
    Positions rest = mine;
    for (std::size_t at = 0; at < mine.size(); ++at) {
      bool both = std::find(theirs.begin(), theirs.end(), mine[at]) != theirs.end();
      (both ? rest : common)[at] = -1;
    }
    ASSERT_EQ(ToPositions(FromPositions(mine).KeepCommon(FromPositions(theirs))), common);
    ASSERT_EQ(ToPositions(FromPositions(mine).KeepRest(FromPositions(theirs))), rest);
  }
}

// (source place, target place, position) of everything in a progression list, in its order.
using Pairs = std::vector<std::vector<std::int64_t>>;

Pairs PairsOf(const std::vector<Progression>& progressions) {
  Pairs pairs;
  for (const Progression& p : progressions) {
    for (std::int64_t b = 0; b < p.count; ++b) {
      for (std::int64_t i = 0; i < p.length; ++i) {
        pairs.push_back({p.source_begin + b * p.source_stride + i, p.target_begin + b * p.target_stride + i,
                         p.logical_begin + b * p.logical_stride + i});
      }
    }
  }
  return pairs;
}

Pairs CommonPairs(const Positions& source, const Positions& target, std::int64_t begin, std::int64_t end) {
  Pairs pairs;
  for (std::int64_t s = 0; s < std::ssize(source); ++s) {
    for (std::int64_t t = 0; t < std::ssize(target); ++t) {
      std::int64_t position = source[static_cast<std::size_t>(s)];
      bool common = position >= 0 && position == target[static_cast<std::size_t>(t)];
      if (common && begin <= position && position < end) pairs.push_back({s, t, position});
    }
  }
  return pairs;
}

TEST(IntersectTest, FindsEveryCommonPositionInOrder) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < kTrials; ++i) {
    Positions source = RandomPositions(random, 20);
    Positions target = RandomPositions(random, 20);
    std::vector<Progression> found = Intersect(FromPositions(source), FromPositions(target));
    ASSERT_EQ(PairsOf(found), CommonPairs(source, target, 0, 20));
    for (const Progression& p : found) ASSERT_TRUE(p.count > 1 || (p.source_stride == 0 && p.logical_stride == 0));
  }
}

TEST(IntersectTest, GathersBlocksOfOnePace) {
  Selection every_fourth;
  for (std::int64_t i = 0; i < 8; ++i) every_fourth.Append(4 * i, 2);
  EXPECT_THAT(Intersect(every_fourth, Selection::Whole(32)), ElementsAre(Progression{0, 0, 0, 2, 8, 2, 4, 4}));
  EXPECT_THAT(Intersect(every_fourth, FromPositions({2, 3})), IsEmpty());
}

TEST(ClipTest, KeepsWhatLiesWithin) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < kTrials; ++i) {
    Positions source = RandomPositions(random, 20);
    Positions target = RandomPositions(random, 20);
    std::vector<Progression> all = Intersect(FromPositions(source), FromPositions(target));
    std::int64_t begin = Pick(random, 0, 21);
    std::int64_t end = Pick(random, 0, 21);
    const auto of_range = Clip(all, begin, end);
    std::vector<Progression> clipped(of_range.begin(), of_range.end());
    ASSERT_EQ(PairsOf(clipped), CommonPairs(source, target, begin, end));
    ASSERT_LE(clipped.size(), all.size() + 4);
    for (const Progression& p : clipped) ASSERT_GT(p.elements(), 0);
  }
  EXPECT_THAT(Clip({{0, 0, 0, 5}}, 0, INT64_MAX), ElementsAre(Progression{0, 0, 0, 5}));
}

}  // namespace
}  // namespace ucp
