// In which order the optimizer of a pipeline's stage has its parameters. That the engine has them so is for
// tests/engine/test_native.py, whose jobs list them before AutoEP makes some of its own.
#include "compiler/formats/deepspeed/native/write/pipeline_order.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/pipeline_names.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The stage of each layer.
using Stages = std::vector<std::int64_t>;

// The groups of each of the target's stages, "a b" each, or what is wrong. Layers 1 and 3 have AutoEP's experts, unless
// there are none.
std::vector<std::string> Ordered(const std::vector<std::vector<std::string>>& groups, const Stages& source,
                                 const Stages& target, bool has_experts = true) {
  TrainingState training;
  Layout layout;
  auto place = [&](const std::string& name, const Stages& stages) -> std::int64_t {
    const std::int64_t layer = *PlaceInPipeline(name);
    return stages[static_cast<std::size_t>(std::max<std::int64_t>(layer, 0))];
  };
  if (has_experts) EditState(training).fused_experts = {"1.mlp.experts.w1", "3.mlp.experts.w1"};
  PipelineLayers& pipeline = EditState(training).pipeline.emplace();
  pipeline.stage_count = source.back() + 1;
  for (const std::vector<std::string>& names : groups) {
    training.groups.push_back({nullptr, nullptr, names});
    for (const std::string& name : names) {
      TensorLayout tensor;
      tensor.name = name;
      tensor.stages = {place(name, target)};
      layout.tensors.push_back(std::move(tensor));
      if (source.back() > 0) pipeline.stages[PrefixInPipeline(name)].insert(place(name, source));
    }
  }
  auto ordered = OrderOfPipeline(training, layout, target.back() + 1);
  if (!ordered) return {TakeFailure(ordered.takeError()).message};
  std::vector<std::string> texts;
  for (std::int64_t stage = 0; stage <= target.back(); ++stage) {
    for (const std::vector<std::string>& names : *ordered) {
      std::vector<std::string> held;
      for (const std::string& name : names) {
        if (place(name, target) == stage) held.push_back(name);
      }
      texts.push_back(fmt::format("{}", fmt::join(held, " ")));
    }
  }
  return texts;
}

TEST(PipelineOrder, TiedModulesComeFirst) {
  EXPECT_THAT(Ordered({{"0.a", "1.b", "tied_modules.t.c", "2.d"}}, {0, 0, 1}, {0, 0, 0}, false),
              ElementsAre("tied_modules.t.c 0.a 1.b 2.d"));
}

TEST(PipelineOrder, WhatAutoEpMadeStandsInItsLayer) {
  const std::vector<std::string> names = {"0.a", "1.mlp.router.gate.weight", "2.b", "3.mlp.router.gate.weight", "4.c"};
  EXPECT_THAT(Ordered({names}, {0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}),
              ElementsAre("0.a 1.mlp.router.gate.weight 2.b 3.mlp.router.gate.weight 4.c"));
}

TEST(PipelineOrder, WhatAutoEpMadeStandsBehindTheOthers) {
  const std::vector<std::string> names = {"0.a", "2.b", "1.mlp.router.gate.weight", "4.c", "3.mlp.router.gate.weight"};
  const std::vector<std::string> experts = {"1.mlp.experts.w1", "3.mlp.experts.w1"};
  const Stages source = {0, 0, 0, 1, 1};
  EXPECT_THAT(Ordered({names, experts}, source, {0, 0, 0, 0, 0}),
              ElementsAre("0.a 2.b 4.c 1.mlp.router.gate.weight 3.mlp.router.gate.weight",
                          "1.mlp.experts.w1 3.mlp.experts.w1"));
  EXPECT_THAT(Ordered({names, experts}, source, {0, 0, 1, 1, 1}),
              ElementsAre("0.a 1.mlp.router.gate.weight", "1.mlp.experts.w1", "2.b 4.c 3.mlp.router.gate.weight",
                          "3.mlp.experts.w1"));
  EXPECT_THAT(Ordered({names, experts}, source, source),
              ElementsAre("0.a 2.b 1.mlp.router.gate.weight", "1.mlp.experts.w1", "4.c 3.mlp.router.gate.weight",
                          "3.mlp.experts.w1"));
  // Of a folder that forgot the stages.
  EXPECT_THAT(Ordered({names}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}),
              ElementsAre(HasSubstr(
                  "has `1.mlp.router.gate.weight` after `2.b`: its order is neither that of the layers nor, on "
                  "the source's stages, that with what AutoEP made behind all others")));
}

// On each of the source's stages the router is in both places.
TEST(PipelineOrder, StagesThatDoNotTell) {
  const std::vector<std::string> names = {"0.a", "1.mlp.router.gate.weight", "2.b", "3.mlp.router.gate.weight"};
  const Stages source = {0, 0, 1, 1};
  EXPECT_THAT(Ordered({names}, source, source),
              ElementsAre("0.a 1.mlp.router.gate.weight", "2.b 3.mlp.router.gate.weight"));
  EXPECT_THAT(Ordered({names}, source, {0, 0, 0, 0}),
              ElementsAre(HasSubstr("AutoEP made `1.mlp.router.gate.weight`, and the source's stages do not tell")));
  // Another group does.
  EXPECT_THAT(
      Ordered({names, {"0.c", "1.mlp.router.gate.bias", "1.d"}}, source, {0, 0, 0, 0}),
      ElementsAre("0.a 1.mlp.router.gate.weight 2.b 3.mlp.router.gate.weight", "0.c 1.mlp.router.gate.bias 1.d"));
}

TEST(PipelineOrder, OrdersThatAreNotThatOfLayers) {
  EXPECT_THAT(Ordered({{"1.a", "0.b"}}, {0, 0}, {0, 0}),
              ElementsAre(HasSubstr("group 0 of the source's optimizer has `0.b` after `1.a`")));
  EXPECT_THAT(Ordered({{"2.a", "0.b", "1.mlp.router.gate.weight"}}, {0, 0, 0}, {0, 0, 0}),
              ElementsAre(HasSubstr("has `0.b` after `2.a`: its order is neither that of the layers nor")));
  EXPECT_THAT(Ordered({{"1.a", "0.b"}}, {0, 0}, {0, 0}, false),
              ElementsAre(HasSubstr("has `0.b` after `1.a`: its order is not that of the layers, so it")));
}

}  // namespace
}  // namespace ucp::deepspeed
