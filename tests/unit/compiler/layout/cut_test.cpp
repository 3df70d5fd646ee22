#include "compiler/layout/cut.h"

#include <gmock/gmock.h>

#include <set>

#include "compiler/support/error.h"
#include "tests/unit/compiler/sets/random_selection.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Lists = std::vector<std::vector<std::int64_t>>;

ShapeExpr By(CutRule rule) {
  ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(8), {"tp"});
  cut.rule = rule;
  return cut;
}
ShapeExpr BySpread(std::int64_t grain) {
  ShapeExpr cut = By(CutRule::kSpread);
  cut.grain = grain;
  return cut;
}
ShapeExpr ByWidths(std::vector<std::int64_t> widths) {
  ShapeExpr cut = By(CutRule::kWidths);
  cut.widths = std::move(widths);
  return cut;
}
ShapeExpr ByList(Lists lists) {
  ShapeExpr cut = By(CutRule::kList);
  cut.lists = std::move(lists);
  return cut;
}

std::vector<std::int64_t> Widths(const ShapeExpr& cut, std::int64_t places, std::int64_t degree) {
  std::vector<std::int64_t> widths;
  for (std::int64_t i = 0; i < degree; ++i) widths.push_back(llvm::cantFail(WidthOf(cut, places, degree, i)));
  return widths;
}

std::string Why(const ShapeExpr& cut, std::int64_t places, std::int64_t degree) {
  llvm::Error error = VerifyCut(cut, places, degree);
  return error ? TakeFailure(std::move(error)).message : "fits";
}

// The numbers are those of torch.arange(n).chunk(k), numpy.array_split, and of DeepSpeed's AutoTP for 14336 and 8.
TEST(CutTest, WidthsAreThoseOfTheRealRules) {
  EXPECT_THAT(Widths(By(CutRule::kChunk), 14336, 5), ElementsAre(2868, 2868, 2868, 2868, 2864));
  EXPECT_THAT(Widths(BySpread(1), 14336, 5), ElementsAre(2868, 2867, 2867, 2867, 2867));
  EXPECT_THAT(Widths(BySpread(64), 14300, 4), ElementsAre(3584, 3584, 3584, 3548));
  EXPECT_THAT(Widths(By(CutRule::kChunk), 5, 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(Widths(BySpread(1), 8, 16), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Widths(BySpread(16), 8, 2), ElementsAre(0, 8));
  EXPECT_THAT(Widths(By(CutRule::kReplicate), 2, 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Widths(By(CutRule::kReplicate), 8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Widths(By(CutRule::kChunk), 0, 2), ElementsAre(0, 0));
  EXPECT_EQ(llvm::cantFail(WidthOf(By(CutRule::kChunk), INT64_MAX, 2, 1)), INT64_MAX / 2);
  EXPECT_EQ(llvm::cantFail(WidthOf(BySpread(1), INT64_MAX, 2, 1)), INT64_MAX / 2);
}

TEST(CutTest, PartsAreRangesInTheirOwnOrder) {
  auto part = [](const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
    return llvm::cantFail(PartOf(cut, places, degree, index));
  };
  EXPECT_THAT(part(ByWidths({3, 0, 5}), 8, 3, 2), ElementsAre(PlaceRange{3, 8}));
  EXPECT_THAT(part(ByWidths({3, 0, 5}), 8, 3, 1), ElementsAre());
  EXPECT_THAT(part(By(CutRule::kReplicate), 2, 4, 3), ElementsAre(PlaceRange{1, 2}));
  EXPECT_THAT(part(ByList({{3, 0, 1}, {2}}), 4, 2, 0), ElementsAre(PlaceRange{3, 4}, PlaceRange{0, 2}));
}

TEST(CutTest, SaysWhyItDoesNotFit) {
  EXPECT_EQ(Why(By(CutRule::kEven), 5, 2), "`8@tp` cuts 5 places over 2 ranks, and 2 does not divide 5");
  EXPECT_EQ(Why(By(CutRule::kReplicate), 6, 4),
            "`8@tp(replicate)` cuts 6 places over 4 ranks, and neither divides the other");
  EXPECT_EQ(Why(BySpread(0), 8, 2), "`8@tp(spread 0)` spreads whole units of 0 places, and needs 1 at least");
  EXPECT_EQ(Why(ByWidths({4, 4}), 8, 3), "`8@tp(widths [4, 4])` has 2 widths, and cuts over 3 ranks");
  EXPECT_EQ(Why(ByWidths({4, 5}), 8, 2), "the widths of `8@tp(widths [4, 5])` are 9 in all, and it cuts 8 places");
  EXPECT_EQ(Why(ByWidths({9, -1}), 8, 2),
            "`8@tp(widths [9, -1])` has the width -1 for rank 1, and widths are 0 or more");
  EXPECT_THAT(Why(ByWidths({INT64_MAX, INT64_MAX}), 8, 2), HasSubstr("are more than 63 bits hold in all"));
  EXPECT_EQ(Why(ByList({{0}, {1}}), 2, 3), "`8@tp(list [[0], [1]])` lists positions for 2 ranks, and cuts over 3");
  EXPECT_EQ(Why(ByList({{0}, {2}}), 2, 2),
            "`8@tp(list [[0], [2]])` lists position 2 for rank 1, and there are 2 places, counted from 0");
  EXPECT_THAT(Why(ByList({{-1}, {0}}), 2, 2), HasSubstr("lists position -1 for rank 0"));
  EXPECT_EQ(Why(ByList({{0, 1, 0}, {}}), 2, 2), "`8@tp(list [[0, 1, 0], []])` lists position 0 twice for rank 0");
  EXPECT_EQ(Why(ByList({{0, 2}, {0}}), 3, 2), "`8@tp(list [[0, 2], [0]])` lists position 1 of 3 for no rank");
  EXPECT_EQ(Why(ByList({{2, 0}, {0, 1}}), 3, 2), "fits");
}

// A list by its definition: fewest pieces by trying every way of sharing out its positions.
std::size_t FewestPieces(const Positions& positions, std::size_t at, std::vector<std::int64_t>& ends) {
  if (at == positions.size()) return ends.size();
  if (positions[at] < 0) return FewestPieces(positions, at + 1, ends);
  ends.push_back(positions[at]);
  std::size_t fewest = FewestPieces(positions, at + 1, ends);
  ends.pop_back();
  for (std::size_t piece = 0; piece < ends.size(); ++piece) {
    if (ends[piece] > positions[at]) continue;
    std::int64_t before = std::exchange(ends[piece], positions[at]);
    fewest = std::min(fewest, FewestPieces(positions, at + 1, ends));
    ends[piece] = before;
  }
  return fewest;
}

TEST(IncreasingPiecesTest, ShareOutThePlacesAndAreAsFewAsCanBe) {
  oracle::Random random(oracle::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    Positions positions = RandomPositions(random, oracle::Pick(random, 0, 6));
    std::shuffle(positions.begin(), positions.end(), random);
    Selection selection = FromPositions(positions);
    std::vector<Selection> pieces = IncreasingPieces(selection);
    Positions joined(positions.size(), -1);
    for (const Selection& piece : pieces) {
      ASSERT_TRUE(piece.IsIncreasing()) << ToString(selection);
      Positions of_piece = ToPositions(piece);
      ASSERT_EQ(of_piece.size(), positions.size());
      for (std::size_t at = 0; at < positions.size(); ++at) {
        if (of_piece[at] < 0) continue;
        ASSERT_EQ(joined[at], -1);
        joined[at] = of_piece[at];
      }
    }
    ASSERT_EQ(joined, positions) << ToString(selection);
    std::vector<std::int64_t> ends;
    ASSERT_EQ(pieces.size(), std::max<std::size_t>(1, FewestPieces(positions, 0, ends))) << ToString(selection);
  }
}

TEST(IncreasingPiecesTest, AProductHasThoseOfEachDimensionInEveryCombination) {
  ProductSet set{{FromPositions({2, 0}), Selection::Whole(2), FromPositions({3, 1, 0})}};
  EXPECT_FALSE(set.IsIncreasing());
  std::vector<ProductSet> pieces = IncreasingPieces(set);
  ASSERT_EQ(pieces.size(), 6u);
  std::set<std::string> texts;
  std::int64_t elements = 0;
  for (const ProductSet& piece : pieces) {
    EXPECT_TRUE(piece.IsIncreasing());
    EXPECT_EQ(piece.LocalShape(), set.LocalShape());
    elements += piece.real_elements();
    texts.insert(ToString(piece));
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(elements, set.real_elements());
  EXPECT_TRUE(texts.contains("[2..3 pad 1, 0..2, pad 1 1..2 pad 1]"));
  EXPECT_EQ(IncreasingPieces(ProductSet::Whole({4, 2})), std::vector{ProductSet::Whole({4, 2})});
}

}  // namespace
}  // namespace ucp
