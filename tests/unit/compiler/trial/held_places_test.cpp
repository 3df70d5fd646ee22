// A trial's memory is bounded, whatever multiplies: numbers of the spec, padding, given values, copies, facts.
#include "compiler/trial/held_places.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/check/check_spec.h"
#include "compiler/parse/parse.h"
#include "compiler/trial/side.h"
#include "compiler/trial/trial.h"

namespace ucp {
namespace {

using testing::HasSubstr;

CheckedSpec Checked(const std::string& text) {
  Source source = llvm::cantFail(Source::FromText("trial.ucp", "ucp 1\n" + text));
  DiagnosticSink sink;
  auto tree = ParseSpec(source, sink);
  auto spec = tree ? CheckSpec(*tree, source, sink) : std::nullopt;
  EXPECT_TRUE(spec.has_value()) << text;
  return *spec;
}

TrialReport Try(const std::string& text, Settings set = {}) {
  return TrySpec(Checked(text), {.set = std::move(set), .seed = 1, .seconds = 0});
}

TEST(HeldPlacesTest, NumbersOfTheSpecAreRefused) {
  const std::string text = "mesh pp, dp, tp\nlayout m {\n\"x\" [(100000@tp(spread) * 100000)@dp(spread)]\n}\n";
  EXPECT_EQ(Try(text).failure,
            "no small values make a model of this spec: all ranks together hold 10,000,000,000 elements, padding and "
            "copies included, and a trial follows 10,000,000; `x` (trial.ucp:4) is the largest with 10,000,000,000; "
            "give smaller values with sets, or write dims for numbers");
}

TEST(HeldPlacesTest, PaddingCounts) {
  EXPECT_THAT(Try("mesh tp\nlayout m { \"x\" [pad(4, 1000000000)@tp] }").failure, HasSubstr("1,000,000,000 elements"));
  const TrialReport with_ranks = Try("mesh tp\nlayout m { \"x\" [pad(4, 9000000 * tp)@tp] }");
  EXPECT_THAT(with_ranks.failure,
              HasSubstr("no mesh of more than one rank fits; tp=2 does not: all ranks together hold 18,000,000"));
}

TEST(HeldPlacesTest, GivenValuesCount) {
  const std::string text = "dim hidden from args.hidden\nmesh tp\nlayout m { \"x\" [hidden@tp, hidden] }";
  EXPECT_THAT(Try(text, {{"hidden", {std::int64_t{4096}}}}).failure, HasSubstr("hold 16,777,216 elements"));
  EXPECT_EQ(Try(text, {{"hidden", {std::int64_t{12}}}}).failure, "");
}

TEST(HeldPlacesTest, ValuesThatAreChosenAreSmallEnough) {
  EXPECT_EQ(Try("dim a from args.a\ndim b from args.b\nmesh tp\nlayout m { \"x\" [a@tp, a, a, b, b, b, b] }").failure,
            "");
}

TEST(HeldPlacesTest, FactsCount) {
  std::string text = "mesh tp\n";
  std::string layout = "layout m {\n";
  for (int i = 0; i < 1001; ++i) {
    text += fmt::format("fact f{} from args.f{}\n", i, i);
    layout += fmt::format("when f{} {{ \"x{}\" [4] }}\n", i, i);
  }
  EXPECT_EQ(Try(text + layout + "\"y\" [4@tp]\n}\n").failure,
            "1001 facts and `has` are more than the 1000 that a trial sets; give some of them with sets");
}

// The bound is what a trial really makes, counted after it is made.
TEST(HeldPlacesTest, WhatIsHeldIsAtMostTheBound) {
  const CheckedSpec spec = Checked(R"(
dim layers from args.layers
dim ffn from args.ffn
mesh pp, dp, tp
layout m {
  "word.weight" [pad(ffn, 7 * tp)@tp, 3] at pp.first, pp.last
  block "{i: layers@pp}" {
    "up.weight" [2 * (ffn@tp), 5]
    "norm.weight" [ffn]
  }
  tie "head.weight" = "word.weight"
})");
  Random random(1);
  std::string why;
  const std::optional<SmallModel> model = ChooseSmallValues(spec, {}, {}, random, why);
  ASSERT_TRUE(model.has_value()) << why;
  ASSERT_GT(model->meshes.size(), 5u);
  for (const Mesh& mesh : model->meshes) {
    const std::optional<Layout> layout = FitToMesh(model->bound, mesh, why);
    ASSERT_TRUE(layout.has_value()) << why;
    std::int64_t held = 0;
    for (const auto& record : BuildSide(*layout, {.as_found = true}).memory) held += std::ssize(record);
    EXPECT_EQ(PlacesHeld(*layout), held) << ToString(mesh);
  }
}

}  // namespace
}  // namespace ucp
