#include "compiler/layout/shape.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "tests/unit/compiler/sets/random_selection.h"

namespace ucp {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMost = INT64_MAX;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }

std::string Held(const ShapeExpr& expr, std::int64_t tp, std::int64_t at) {
  auto selection = Select(expr, {{{"tp", tp}}}, {{{"tp", at}}});
  return selection ? ToString(*selection) : TakeFailure(selection.takeError()).message;
}

TEST(ShapeTest, SelectsWhatTheAlgebraSays) {
  oracle::Random random(oracle::TestSeed());
  int cuts = 0;
  for (int i = 0; i < 150; ++i) {
    oracle::Conversion conversion = oracle::RandomConversion(random);
    for (const oracle::TensorCut& tensor : conversion.source) {
      for (const ShapeExpr& dim : tensor.dims) {
        ASSERT_EQ(llvm::cantFail(LogicalLength(dim)), oracle::Length(dim));
        for (const Coordinate& coordinate : oracle::AllCoordinates(conversion.from.mesh)) {
          Selection selection = llvm::cantFail(Select(dim, conversion.from.mesh, coordinate));
          ASSERT_EQ(ToPositions(selection), *oracle::Positions(dim, conversion.from.mesh, coordinate))
              << ToString(dim) << " at " << ToString(coordinate);
          bool listed = ToString(dim).find("(list") != std::string::npos;  // The one rule that may fall.
          ASSERT_TRUE(selection.IsIncreasing() || listed);
          if (!CuttingAxes(dim).empty()) ++cuts;
        }
      }
    }
  }
  EXPECT_GT(cuts, 100);
}

// All that a rule can say about `places` places over `degree` coordinates, refusals among it.
std::vector<ShapeExpr> AllCuts(const ShapeExpr& inner, std::int64_t degree, oracle::Random& random) {
  std::vector<ShapeExpr> cuts;
  auto add = [&](CutRule rule) -> ShapeExpr& {
    cuts.push_back(Tp(inner));
    cuts.back().rule = rule;
    return cuts.back();
  };
  std::int64_t length = oracle::Length(inner);
  for (CutRule rule : {CutRule::kEven, CutRule::kChunk, CutRule::kSpread, CutRule::kReplicate}) add(rule);
  for (std::int64_t grain : {2, 3}) add(CutRule::kSpread).grain = grain;
  for (int i = 0; i < 4; ++i) {  // Some positions to everybody, each to somebody, in any order.
    ShapeExpr& list = add(CutRule::kList);
    ShapeExpr widths = Tp(inner);
    widths.rule = CutRule::kWidths;
    list.lists.resize(static_cast<std::size_t>(degree));
    widths.widths.resize(static_cast<std::size_t>(degree));
    for (std::int64_t position = 0; position < length; ++position) {
      auto owner = static_cast<std::size_t>(oracle::Pick(random, 0, degree - 1));
      ++widths.widths[owner];
      for (std::size_t rank = 0; rank < list.lists.size(); ++rank) {
        if (rank == owner || oracle::Pick(random, 0, 3) == 0) list.lists[rank].push_back(position);
      }
    }
    for (std::vector<std::int64_t>& of_rank : list.lists) std::shuffle(of_rank.begin(), of_rank.end(), random);
    cuts.push_back(std::move(widths));
  }
  return cuts;
}

// Nests around a cut: alone, inside and outside of products, in a sum, and cut again by another axis.
std::vector<ShapeExpr> AllNests(const ShapeExpr& cut) {
  std::vector<ShapeExpr> nests = {cut, ShapeExpr::Product({N(2), cut}), ShapeExpr::Product({cut, N(3)}),
                                  ShapeExpr::Sum({cut, N(2), cut}), ShapeExpr::Sum({N(1), cut})};
  for (std::size_t i = 0; i < 3; ++i) {
    ShapeExpr again = ShapeExpr::Cut(nests[i], {"dp"});
    again.rule = i == 0 ? CutRule::kSpread : CutRule::kChunk;
    nests.push_back(again);
  }
  return nests;
}

TEST(ShapeTest, EveryRuleSelectsWhatItsDefinitionSays) {
  oracle::Random random(oracle::TestSeed());
  int held = 0;
  int refused = 0;
  int falling = 0;
  for (std::int64_t length = 0; length <= 9; ++length) {
    for (std::int64_t degree = 1; degree <= 6; ++degree) {
      Mesh mesh{{{"tp", degree}, {"dp", 2}}};
      for (const ShapeExpr& inner : {N(length), ShapeExpr::Pad(N(length), 4), ShapeExpr::Product({N(length), N(2)})}) {
        for (const ShapeExpr& cut : AllCuts(inner, degree, random)) {
          for (const ShapeExpr& nest : AllNests(cut)) {
            for (const Coordinate& coordinate : oracle::AllCoordinates(mesh)) {
              auto expected = oracle::Positions(nest, mesh, coordinate);
              auto found = Select(nest, mesh, coordinate);
              ASSERT_EQ(static_cast<bool>(found), expected.has_value()) << ToString(nest) << " " << ToString(mesh);
              if (!found) {
                llvm::consumeError(found.takeError());
                ++refused;
                continue;
              }
              ASSERT_EQ(ToPositions(*found), *expected) << ToString(nest) << " at " << ToString(coordinate);
              ASSERT_TRUE(found->IsIncreasing() || cut.rule == CutRule::kList);
              ++held;
              if (!found->IsIncreasing()) ++falling;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(held, 50000);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(falling, 1000);
}

TEST(ShapeTest, ReadsAsInTheDocument) {
  EXPECT_EQ(Held(ShapeExpr::Product({N(2), Tp(N(4))}), 2, 1), "2..4 6..8");
  EXPECT_EQ(Held(Tp(ShapeExpr::Product({N(2), N(4)})), 2, 1), "4..8");
  EXPECT_EQ(Held(ShapeExpr::Product({Tp(N(4)), N(2)}), 2, 1), "4..8");
  EXPECT_EQ(Held(Tp(ShapeExpr::Sum({N(8), N(2), N(2)})), 3, 2), "8..12");
  EXPECT_EQ(Held(Tp(ShapeExpr::Pad(N(5), 8)), 2, 1), "4..5 pad 3");
  EXPECT_EQ(Held(ShapeExpr::Product({N(2), ShapeExpr::Pad(N(3), 4)}), 1, 0), "0..3 pad 1 3..6 pad 1");
  ShapeExpr both = ShapeExpr::Cut(N(8), {"tp", "dp"});
  EXPECT_EQ(ToString(llvm::cantFail(Select(both, {{{"dp", 2}, {"tp", 2}}}, {{{"tp", 1}, {"dp", 0}}}))), "4..6");
}

TEST(ShapeTest, PrintsAsItIsWritten) {
  EXPECT_EQ(ToString(ShapeExpr::Product({Tp(N(8)), N(3), N(64)})), "8@tp * 3 * 64");
  EXPECT_EQ(ToString(Tp(ShapeExpr::Pad(N(50257), 256))), "pad(50257, 256)@tp");
  EXPECT_EQ(ToString(ShapeExpr::Product({N(2), ShapeExpr::Sum({N(1), Tp(N(2))})})), "2 * (1 + 2@tp)");
  EXPECT_EQ(ToString(ShapeExpr::Cut(ShapeExpr::Sum({N(1), N(2)}), {"tp", "dp"})), "(1 + 2)@(tp, dp)");
  ShapeExpr cut = Tp(N(8));
  auto printed = [&](CutRule rule) {
    cut.rule = rule;
    return ToString(cut);
  };
  EXPECT_EQ(printed(CutRule::kChunk), "8@tp(chunk)");
  EXPECT_EQ(printed(CutRule::kSpread), "8@tp(spread)");
  EXPECT_EQ(printed(CutRule::kReplicate), "8@tp(replicate)");
  cut.grain = 64;
  cut.widths = {3, 3, 2};
  cut.lists = {{0, 3}, {}, {1, 2}};
  EXPECT_EQ(printed(CutRule::kSpread), "8@tp(spread 64)");
  EXPECT_EQ(printed(CutRule::kWidths), "8@tp(widths [3, 3, 2])");
  EXPECT_EQ(printed(CutRule::kList), "8@tp(list [[0, 3], [], [1, 2]])");
  EXPECT_EQ(ToString(ShapeExpr::Cut(ShapeExpr::Product({N(2), Tp(N(4))}), {"dp"})), "(2 * (4@tp))@dp");
}

TEST(ShapeTest, SaysWhyItCannotCut) {
  EXPECT_EQ(Held(Tp(N(5)), 2, 0), "`5@tp` cuts 5 places over 2 ranks, and 2 does not divide 5");
  EXPECT_EQ(Held(ShapeExpr::Pad(Tp(N(4)), 3), 2, 0),
            "`pad(4@tp, 3)` pads what is cut already; cut the padded whole instead");
  EXPECT_THAT(Held(Tp(N(4)), 2, 2), HasSubstr("`4@tp` is cut over 2 ranks of tp, and there is a rank at tp=2"));
}

TEST(ShapeTest, NumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(Held(ShapeExpr::Product({N(kMost), N(2)}), 1, 0), HasSubstr("does not fit in 63 bits"));
  EXPECT_THAT(Held(ShapeExpr::Sum({N(kMost), N(2)}), 1, 0), HasSubstr("does not fit in 63 bits"));
  EXPECT_THAT(Held(ShapeExpr::Pad(N(kMost), 1000), 1, 0), HasSubstr("do not fit in 63 bits"));
  ShapeExpr padded = ShapeExpr::Pad(N(1), kMost / 2);
  EXPECT_THAT(Held(ShapeExpr::Product({padded, padded}), 1, 0), HasSubstr("do not fit in 63 bits"));
  EXPECT_THAT(Held(ShapeExpr::Sum({padded, padded, padded}), 1, 0), HasSubstr("do not fit in 63 bits"));
  EXPECT_THAT(Held(ShapeExpr::Pad(N(1), 0), 1, 0), HasSubstr("pads to a multiple of 0"));
  EXPECT_THAT(Held(ShapeExpr::Product({N(kMaxRuns + 1), Tp(N(2))}), 2, 0), HasSubstr("separate runs of positions"));
}

}  // namespace
}  // namespace ucp
