#include "compiler/trial/trial.h"

#include <gmock/gmock.h>

#include "compiler/check/check_spec.h"
#include "compiler/parse/parse.h"
#include "compiler/support/error.h"
#include "compiler/trial/carry_out.h"
#include "compiler/trial/families.h"
#include "compiler/trial/positions.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CheckedSpec Checked(const std::string& text) {
  Source source = llvm::cantFail(Source::FromText("trial.ucp", text));
  DiagnosticSink sink;
  auto tree = ParseSpec(source, sink);
  auto spec = tree ? CheckSpec(*tree, source, sink) : std::nullopt;
  EXPECT_TRUE(spec.has_value()) << text;
  return *spec;
}

// Three tensors: SwiGLU halves, columns, and one on a stage of its own.
constexpr const char* kSmall = R"(ucp 1
dim layers from args.layers
dim hidden from args.hidden
dim ffn from args.ffn
mesh pp, dp, tp
layout small {
  block "{i: layers@pp}" {
    "up.weight" [2 * (ffn@tp), hidden]
    "down.weight" [hidden, ffn@tp]
  }
  "norm.weight" [hidden] at pp.last
}
)";

TEST(SmallMeshesTest, AreAllOfAtMostEightRanks) {
  std::vector<std::string> meshes;
  for (const Mesh& mesh : SmallMeshes(Checked(kSmall))) meshes.push_back(ToString(mesh));
  EXPECT_EQ(meshes.size(), 12u);  // 1 to 4 stages by 1 to 4 ranks, without 3 by 3, 3 by 4, 4 by 3 and 4 by 4.
  EXPECT_EQ(meshes.front(), "pp=1 dp=1 tp=1");
  EXPECT_THAT(meshes, testing::Contains("pp=2 dp=1 tp=4"));
  EXPECT_THAT(meshes, testing::Not(testing::Contains("pp=3 dp=1 tp=3")));
  EXPECT_THAT(SmallMeshes(Checked("ucp 1\nlayout one { \"w\" [2] }")), ElementsAre(Mesh{}));
}

TEST(TrialTest, ASoundSpecPassesOnEveryMesh) {
  TrialReport report = TrySpec(Checked(kSmall), {.set = {}, .seed = 3, .seconds = 0});
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.meshes.size(), 12u);
  EXPECT_THAT(report.misfits, IsEmpty());
  EXPECT_EQ(report.conversions, 4 * 12);
  EXPECT_THAT(report.refused, IsEmpty());
}

TEST(TrialTest, MeshesThatDoNotFitAreShown) {
  TrialReport report = TrySpec(Checked(kSmall), {.set = {{"ffn", {std::int64_t{4}}}}, .seed = 1, .seconds = 0});
  EXPECT_EQ(report.failure, "");
  ASSERT_EQ(report.misfits.size(), 2u);
  EXPECT_EQ(ToString(report.misfits[0].mesh), "pp=1 dp=1 tp=3");
  EXPECT_EQ(report.misfits[0].why, "`ffn` is 4 and does not divide over 3 ranks of `tp`");
}

TEST(TrialTest, ASpecThatFitsNoMeshFails) {
  TrialReport report =
      TrySpec(Checked("ucp 1\nmesh tp\nlayout five { \"w\" [5@tp] }"), {.set = {}, .seed = 1, .seconds = 0});
  EXPECT_EQ(
      report.failure,
      "no mesh of more than one rank fits; tp=2 does not: this cuts 5 places and does not divide over 2 ranks of `tp`");
  report = TrySpec(Checked("ucp 1\ndim a from args.a\ndim b = a / 1000\nmesh tp\nlayout none { \"w\" [b@tp] }"),
                   {.set = {}, .seed = 1, .seconds = 0});
  EXPECT_THAT(report.failure, HasSubstr("no small values make a model of this spec: "));
}

// Elements in memory are cut as declared; the plan is made for another cut. Nobody but the elements can tell.
class WrongPlan : public testing::Test {
 protected:
  static Layout Small(bool right, std::int64_t tp) {
    ShapeExpr four = ShapeExpr::Cut(ShapeExpr::Length(4), {"tp"});
    ShapeExpr halves = ShapeExpr::Product({ShapeExpr::Length(2), four});
    ShapeExpr through = ShapeExpr::Cut(ShapeExpr::Length(8), {"tp"});
    TensorLayout tensor;
    tensor.name = "up.weight";
    tensor.dims = {right ? halves : through, ShapeExpr::Length(3)};
    tensor.declared_at = "trial.ucp:8";
    return {{{{"tp", tp}}}, {tensor}, {}};
  }
};

TEST_F(WrongPlan, IsFoundByTheElements) {
  Side source = BuildSide(Small(true, 2), {});
  Side target = BuildSide(Small(true, 1), {});
  source.layout = Small(false, 2);
  Plan plan = llvm::cantFail(PlanBetween(source, target));
  CarriedOut carried = CarryOut(plan, source, target, source.memory);
  EXPECT_EQ(carried.problem, "");
  EXPECT_EQ(carried.copied, 24);
  EXPECT_EQ(Difference(target, carried.memory),
            "`tp=0 part 0` place 6 should hold tensor `up.weight` (trial.ucp:8), element [2, 0], and holds tensor "
            "`up.weight` (trial.ucp:8), element [4, 0]");
  EXPECT_EQ(Difference(target, target.memory), "");
}

TEST_F(WrongPlan, IsFoundWhereItLeavesItsRecords) {
  Side source = BuildSide(Small(true, 2), {});
  Side target = BuildSide(Small(true, 1), {});
  Plan plan = llvm::cantFail(PlanBetween(source, target));
  source.memory[0].resize(5);
  EXPECT_EQ(CarryOut(plan, source, target, source.memory).problem,
            "`tp=0 part 0` place 5 to `tp=0 part 0` place 5: reads outside of its record");
}

TEST(SideTest, CopiesOnUnusedStagesHaveDrifted) {
  TensorLayout tensor;
  tensor.name = "positions";
  tensor.dims = {ShapeExpr::Length(2)};
  tensor.stages = {{0}};
  tensor.unused_stages = {1};
  Layout layout{{{{"pp", 2}}}, {tensor}, {}};
  Side found = BuildSide(layout, {.as_found = true});
  ASSERT_EQ(found.memory.size(), 2u);
  EXPECT_EQ(found.memory[0], (std::vector<std::int64_t>{0, 1}));
  EXPECT_NE(found.memory[1], found.memory[0]);
  EXPECT_EQ(BuildSide(layout, {}).memory[1], found.memory[0]);
  Random random(1);
  TrialReport report;
  TryConversions(layout, layout, layout, random, report);
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.conversions, 4);
}

constexpr const char* kFamily = R"(ucp 1
dim layers from args.layers
dim ffn from args.ffn
fact tied from config.tied
fact kinds from config.kinds
mesh pp, tp
layout family {
  when not tied { "head.weight" [ffn@tp] at pp.last }
  block "{i: layers@pp}" {
    when kinds[i] == "moe" { "experts.weight" [4 * ffn@tp] } else { "mlp.weight" [ffn@tp] }
    when has "{i}.bias" { "bias" [ffn@tp] }
  }
}
)";

TEST(FamiliesTest, EveryFactHasItsAlternatives) {
  CheckedSpec spec = Checked(kFamily);
  Random random(1);
  std::string why;
  std::vector<Settings> families = FamiliesOf(spec, {}, random, why);
  EXPECT_EQ(families.size(), 8u);  // tied or not, two lists of kinds, biases or not.
  for (const Settings& family : families) {
    EXPECT_EQ(family.size(), 3u);
    EXPECT_TRUE(family.contains("has \"{i}.bias\""));
    const auto& kinds = std::get<std::vector<FactValue>>(family.at("kinds").value);
    EXPECT_THAT(kinds, testing::Contains(FactValue{std::string("moe")}));
  }
  EXPECT_EQ(FamiliesOf(spec, {{"tied", {true}}}, random, why).size(), 4u);
  TrialReport report = TrySpec(spec, {.set = {}, .seed = 1, .seconds = 0});
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.families, 8u);
}

}  // namespace
}  // namespace ucp
