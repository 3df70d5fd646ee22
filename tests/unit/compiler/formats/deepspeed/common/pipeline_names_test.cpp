#include "compiler/formats/deepspeed/common/pipeline_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using ::testing::HasSubstr;

ModelStates Stage(std::vector<NamedShape> shapes, std::set<std::string> buffers = {}) {
  ModelStates states;
  states.param_shapes = {std::move(shapes)};
  states.buffer_names = std::move(buffers);
  return states;
}

ModuleEntries Layer(const std::vector<NamedShape>& tensors) {
  ModuleEntries entries;
  for (const NamedShape& tensor : tensors) {
    TensorPlace place;
    place.sizes = tensor.shape;
    entries.tensors.emplace_back(tensor.name, place);
  }
  return entries;
}

// "stage prefix", or "?".
std::string Found(const PipelineNames& names, std::int64_t layer, const ModuleEntries& entries) {
  auto found = names.Find(layer, entries);
  return found ? fmt::format("{} {}", found->stage, found->prefix) : "?";
}

TEST(PipelineNames, LayersHaveTheirNumbers) {
  PipelineNames names({Stage({{"0.weight", {2}}, {"1.weight", {2}}}), Stage({{"3.weight", {2}}}, {"4.mask"})}, 1);
  EXPECT_EQ(Found(names, 1, Layer({{"weight", {2}}})), "0 1.");
  EXPECT_EQ(Found(names, 3, Layer({{"weight", {2}}})), "1 3.");
  EXPECT_EQ(Found(names, 4, Layer({{"mask", {2}}})), "1 4.");
  // Nothing names layer 2: frozen as a whole, behind layer 1.
  EXPECT_EQ(Found(names, 2, Layer({{"weight", {2}}})), "0 2.");
}

// The fault in the order of stages of one tensor-parallel rank each; empty if there is none.
std::string WrongOrder(const std::vector<ModelStates>& states, std::int64_t tp = 1) {
  llvm::Error error = CheckStagesFollow("folder", tp, states);
  return error ? TakeFailure(std::move(error)).message : "";
}

TEST(PipelineNames, StagesFollowAsTheirLayersDo) {
  const NamedShape tied = {"tied_modules.embed.weight", {8, 2}};
  ModelStates first = Stage({tied, {"0.weight", {2}}, {"2.weight", {2}}});
  ModelStates second = Stage({tied, {"3.weight", {2}}});
  ModelStates of_tied_alone = Stage({tied});
  first.path = "mp_rank_01";
  second.path = "mp_rank_00";
  EXPECT_EQ(WrongOrder({first, of_tied_alone, second}), "");
  EXPECT_EQ(WrongOrder({first, first, second, second}, 2), "");
  EXPECT_EQ(WrongOrder({first, first}, 2), "");
  EXPECT_THAT(WrongOrder({second, of_tied_alone, first}),
              HasSubstr("`mp_rank_01`, of a later pipeline stage than `mp_rank_00`, has `0.weight`, and that one has "
                        "`3.weight`"));
  EXPECT_THAT(WrongOrder({first, second, second, first}, 2), HasSubstr("one of these files is another stage's"));
  EXPECT_THAT(WrongOrder({first, first}), HasSubstr("has `0.weight`, and that one has `2.weight`"));
}

TEST(PipelineNames, TiedLayersHaveTheirKey) {
  const NamedShape tied = {"tied_modules.embed.weight", {8, 2}};
  PipelineNames names({Stage({tied, {"1.weight", {2}}}), Stage({tied, {"3.weight", {2}}})}, 1);
  EXPECT_EQ(Found(names, 0, Layer({{"weight", {8, 2}}})), "0 tied_modules.embed.");
  EXPECT_EQ(Found(names, 4, Layer({{"weight", {8, 2}}})), "1 tied_modules.embed.");
  // Another shape is another layer.
  EXPECT_EQ(Found(names, 0, Layer({{"weight", {9, 2}}})), "0 0.");
}

TEST(PipelineNames, TwoTiedModulesAreToldApartByShape) {
  PipelineNames names({Stage({{"tied_modules.a.weight", {4}}, {"tied_modules.b.weight", {5}}, {"2.weight", {2}}})}, 1);
  EXPECT_EQ(Found(names, 0, Layer({{"weight", {5}}})), "0 tied_modules.b.");
  PipelineNames equal({Stage({{"tied_modules.a.weight", {4}}, {"tied_modules.b.weight", {4}}, {"2.weight", {2}}})}, 1);
  EXPECT_EQ(Found(equal, 0, Layer({{"weight", {4}}})), "?");
}

TEST(PipelineNames, StagesHaveSeveralRanks) {
  PipelineNames names(
      {Stage({{"0.weight", {2}}}), Stage({{"0.weight", {2}}}), Stage({{"1.weight", {2}}}), Stage({{"1.weight", {2}}})},
      2);
  EXPECT_EQ(Found(names, 1, Layer({{"weight", {2}}})), "1 1.");
}

}  // namespace
}  // namespace ucp::deepspeed
