// The printed form of trees built by hand; tests/golden/parse shows the form of parsed ones.
#include "compiler/ast/print.h"

#include <gtest/gtest.h>

namespace ucp::ast {
namespace {

Expr NameOf(const char* text) { return {.range = {}, .node = Name{text}}; }
Expr NumberOf(std::int64_t value) { return {.range = {}, .node = Number{value}}; }

TEST(AstPrintTest, GroupsAreExplicit) {
  Cut cut{.operand = NameOf("ffn"), .cut_range = {}, .axes = {{{}, "tp"}}, .rule_range = {}, .argument = {}};
  Product product{{{ProductOperator::kTimes, NumberOf(2)}, {ProductOperator::kTimes, {.range = {}, .node = cut}}}};
  EXPECT_EQ(Print(Expr{.range = {}, .node = product}), "(2 * ffn@tp)");
  Cut outer{.operand = Expr{.range = {}, .node = product},
            .cut_range = {},
            .axes = {{{}, "tp"}, {{}, "dp"}},
            .rule = CutRule::kSpread,
            .rule_range = {},
            .argument = {NumberOf(64)}};
  EXPECT_EQ(Print(Expr{.range = {}, .node = outer}), "(2 * ffn@tp)@(tp, dp)(spread 64)");
}

TEST(AstPrintTest, LabelsAndMinusSigns) {
  Sum sum{{{.label = Identifier{{}, "q"}, .expr = NameOf("a")}, {.op = SumOperator::kMinus, .expr = NameOf("b")}}};
  EXPECT_EQ(Print(Expr{.range = {}, .node = sum}), "(q: a - b)");
}

TEST(AstTest, CopiesAreDeep) {
  Expr original{.range = {}, .node = Pad{NameOf("vocab"), NumberOf(128)}};
  Expr copy = original;
  original = NumberOf(1);
  EXPECT_EQ(Print(copy), "pad(vocab, 128)");
}

}  // namespace
}  // namespace ucp::ast
