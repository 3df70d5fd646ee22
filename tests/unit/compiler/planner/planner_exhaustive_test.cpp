// Every pair of ways to cut one dimension of 24, over every small mesh, and the laws that hold between conversions.
#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }
ShapeExpr Ep(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"ep"}); }
ShapeExpr Product(ShapeExpr a, ShapeExpr b) { return ShapeExpr::Product({std::move(a), std::move(b)}); }
ShapeExpr Sum(ShapeExpr a, ShapeExpr b) { return ShapeExpr::Sum({std::move(a), std::move(b)}); }

// 24 positions, cut by `tp` of this degree and by `ep` of degree 2.
std::vector<ShapeExpr> WaysToCut24(std::int64_t tp) {
  return {
      N(24),
      Tp(N(24)),
      Product(N(2), Tp(N(12))),
      Product(Tp(N(12)), N(2)),
      Tp(Product(N(2), N(12))),
      Sum(Tp(N(12)), Tp(N(12))),
      Tp(Sum(N(12), N(12))),
      Sum(Tp(ShapeExpr::Pad(N(5), tp)), Tp(ShapeExpr::Pad(N(19), 4 * tp))),
      ShapeExpr::Pad(N(24), 7),
      Tp(ShapeExpr::Pad(N(24), 5 * tp)),
      Product(N(2), Tp(ShapeExpr::Pad(N(12), 5 * tp))),
      Product(Tp(ShapeExpr::Pad(N(3), 2 * tp)), N(8)),
      ShapeExpr::Cut(N(24), {"ep", "tp"}),
      Ep(Product(N(2), Tp(N(12)))),
      Product(Ep(N(2)), Tp(N(12))),
      Product(N(2), Product(Tp(ShapeExpr::Pad(N(4), tp)), Ep(ShapeExpr::Pad(N(3), 4)))),
  };
}

Mesh MeshOf(std::int64_t tp) { return {{{"tp", tp}, {"ep", 2}}}; }

// Turns with every conversion, so that all styles, numbers of ranks and gaps meet all shapes.
Strategy Turn(std::int64_t turn, std::int64_t tp, bool is_source) {
  Strategy strategy;
  strategy.mesh = MeshOf(tp);
  strategy.style = static_cast<Style>(turn % (is_source ? 4 : 3));
  strategy.ranks = 1 + turn % 5;
  strategy.gap = turn % 3;
  strategy.lead = turn % 2;
  strategy.stripped = is_source && turn % 2 == 0;
  strategy.weights = is_source && turn % 11 == 0;
  return strategy;
}

// Every conversion where UCP_TEST_SECONDS gives time for it, and else each seventh.
bool IsTested(std::int64_t turn) { return TestSeconds() > 2 || turn % 7 == 0; }

std::string Problem(const Conversion& conversion) {
  auto compiled = Compile(conversion);
  return compiled ? Flaw(*compiled) : TakeFailure(compiled.takeError()).message;
}

TEST(PlannerExhaustiveTest, EveryWayToCutOneDimension) {
  std::int64_t turn = 0;
  for (std::int64_t source_tp = 1; source_tp <= 4; ++source_tp) {
    for (std::int64_t target_tp = 1; target_tp <= 4; ++target_tp) {
      for (const ShapeExpr& source : WaysToCut24(source_tp)) {
        for (const ShapeExpr& target : WaysToCut24(target_tp)) {
          if (!IsTested(++turn)) continue;
          Conversion conversion{
              {{{source}, {}}}, {{{target}, {}}}, Turn(turn, source_tp, true), Turn(turn / 4, target_tp, false)};
          ASSERT_EQ(Problem(conversion), "") << ToString(conversion);
        }
      }
    }
  }
}

// Two dimensions, of which the rows or the columns are cut.
TEST(PlannerExhaustiveTest, EveryWayToCutRowsAndColumns) {
  std::int64_t turn = 0;
  for (const ShapeExpr& source : WaysToCut24(3)) {
    for (const ShapeExpr& target : WaysToCut24(2)) {
      for (bool rows : {true, false}) {
        if (!IsTested(++turn)) continue;
        TensorCut from{rows ? std::vector{source, N(3)} : std::vector{N(3), source}, {}};
        TensorCut to{rows ? std::vector{target, N(3)} : std::vector{N(3), target}, {}};
        Conversion conversion{{from}, {to}, Turn(turn, 3, true), Turn(turn / 4, 2, false)};
        ASSERT_EQ(Problem(conversion), "") << ToString(conversion);
      }
    }
  }
}

TEST(PlannerExhaustiveTest, ChunksGiveTheSameElements) {
  Conversion conversion{{{{N(5), Product(N(2), Tp(N(12)))}, {}}},
                        {{{N(5), Tp(ShapeExpr::Pad(N(24), 14))}, {}}},
                        Turn(4, 3, true),
                        Turn(3, 2, false)};
  auto compiled = Compile(conversion);
  ASSERT_TRUE(static_cast<bool>(compiled)) << TakeFailure(compiled.takeError()).message;
  for (std::int64_t chunk = 1; chunk <= 140; ++chunk) ASSERT_EQ(Flaw(*compiled, chunk), "") << "chunks of " << chunk;
}

// The laws. A side that a plan has filled is the next plan's source.
Side Converted(const Side& source, const std::vector<TensorCut>& cuts, const Strategy& strategy) {
  Side target = Build(cuts, strategy);
  auto plan = MakePlan(source, target);
  if (!plan) {
    ADD_FAILURE() << TakeFailure(plan.takeError()).message;
    return target;
  }
  Outcome outcome = Execute(*plan, source.memory);
  EXPECT_EQ(outcome.problem, "");
  target.memory = outcome.target;
  return target;
}

TEST(PlannerLawsTest, ThereAndBackIsTheIdentityAndTwoHopsEqualOne) {
  Random random(TestSeed());
  for (int i = 0; i < 25; ++i) {
    Conversion conversion = RandomConversion(random);
    if (conversion.from.style == Style::kTransposed) conversion.from.style = Style::kSingle;
    conversion.from.stripped = conversion.from.weights = false;
    SCOPED_TRACE(ToString(conversion));
    Side start = Build(conversion.source, conversion.from);
    Side middle = Converted(start, conversion.target, conversion.to);
    Side back = Converted(middle, conversion.source, conversion.from);
    ASSERT_EQ(Difference(start.files.storage, start.memory, back.memory), "");

    Conversion other = RandomConversion(random);
    Strategy last = conversion.from;
    last.ranks = other.from.ranks;
    last.gap = other.from.gap;
    Side two_hops = Converted(middle, conversion.source, last);
    Side one_hop = Converted(start, conversion.source, last);
    ASSERT_EQ(Difference(one_hop.files.storage, one_hop.memory, two_hops.memory), "");
  }
}

TEST(PlannerLawsTest, TheNumberOfRanksDoesNotMatter) {
  std::vector<TensorCut> cuts = {{{Tp(N(12)), N(5)}, {}}, {{N(7)}, {}}, {{N(5), Tp(N(6))}, {}}};
  for (Style style : {Style::kFlat, Style::kEachTensor}) {
    std::optional<Side> first;
    for (std::int64_t ranks = 1; ranks <= 20; ++ranks) {
      Strategy from{MeshOf(3), style, ranks, 1, 0, ranks % 2 == 0, false};
      Side result = Converted(Build(cuts, from), cuts, Strategy{MeshOf(2), Style::kSingle});
      if (!first) first = result;
      ASSERT_EQ(Difference(first->files.storage, first->memory, result.memory), "") << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace ucp::oracle
