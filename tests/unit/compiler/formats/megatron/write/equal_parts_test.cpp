#include "compiler/formats/megatron/write/equal_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

LogicalTensor TensorOf(std::string name, std::vector<std::int64_t> shape) {
  LogicalTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.states = {{kMasterState, DType::kFloat32}};
  return tensor;
}

const std::vector<LogicalTensor> kTensors = {
    TensorOf("decoder.layers.mlp.experts.experts.linear_fc1.weight", {2, 4, 24, 6}),
    TensorOf("decoder.layers.mlp.experts.experts.linear_fc2.weight", {2, 4, 6, 12}),
    TensorOf("decoder.layers.mlp.linear_fc1.bias", {2, 24}),
    TensorOf("decoder.layers.mlp.linear_fc1.layer_norm_weight", {2, 6}),
    TensorOf("decoder.layers.mlp.linear_fc1.weight", {2, 24, 6}),
    TensorOf("decoder.layers.mlp.linear_fc2.weight", {2, 6, 12}),
    TensorOf("embedding.word_embeddings.weight", {24, 6})};

// Of a job with 2 tensor-parallel ranks.
TrainingState Training() {
  TrainingState training;
  training.ranks.emplace_back().client.push_back(
      {pytorch::MakeText("args"),
       pytorch::MakeDict({{pytorch::MakeText("tensor_model_parallel_size"), pytorch::MakeInteger(2)}})});
  return training;
}

TargetOptions OwnBuffers(std::optional<std::int64_t> tensor_parallel = std::nullopt) {
  TargetOptions options;
  options.sharding = kOwnBuffers;
  options.tensor_parallel = tensor_parallel;
  return options;
}

TargetOptions Fsdp() {
  TargetOptions options;
  options.is_fsdp = true;
  return options;
}

std::vector<std::vector<std::int64_t>> PartsWith(const TargetOptions& options) {
  std::vector<std::vector<std::int64_t>> parts;
  for (const auto& [name, of_tensor] : llvm::cantFail(EqualPartsOf(options, Training(), kTensors))) {
    parts.push_back(of_tensor);
  }
  return parts;
}

TEST(EqualParts, TensorsWithTwiceAsManyRowsAsColumnsBehindThem) {
  EXPECT_THAT(GatedTensors(kTensors),
              UnorderedElementsAre("decoder.layers.mlp.experts.experts.linear_fc1.weight",
                                   "decoder.layers.mlp.linear_fc1.bias", "decoder.layers.mlp.linear_fc1.weight"));
  const std::vector<LogicalTensor> plain = {TensorOf("decoder.layers.0.mlp.experts.linear_fc1.weight3", {12, 6}),
                                            TensorOf("decoder.layers.0.mlp.experts.linear_fc2.weight3", {6, 12})};
  EXPECT_THAT(GatedTensors(plain), IsEmpty());
  const std::vector<LogicalTensor> odd = {TensorOf("decoder.layers.0.mlp.linear_fc1.bias", {}),
                                          TensorOf("decoder.layers.0.mlp.linear_fc1.weight", {24, 6}),
                                          TensorOf("decoder.layers.0.mlp.linear_fc2.weight", {6, 12})};
  EXPECT_THAT(GatedTensors(odd), UnorderedElementsAre("decoder.layers.0.mlp.linear_fc1.weight"));
}

TEST(EqualParts, LayersAndExperts) {
  EXPECT_THAT(PartsWith({}), ElementsAre(ElementsAre(2, 4), ElementsAre(2, 4), ElementsAre(2), ElementsAre(2),
                                         ElementsAre(2), ElementsAre(2), IsEmpty()));
}

TEST(EqualParts, Halves) {
  EXPECT_THAT(PartsWith(Fsdp()), ElementsAre(ElementsAre(2, 4, 2), ElementsAre(2, 4), ElementsAre(2, 2), ElementsAre(2),
                                             ElementsAre(2, 2), ElementsAre(2), IsEmpty()));
}

TEST(EqualParts, PartsOfRanks) {
  EXPECT_THAT(PartsWith(OwnBuffers()),
              ElementsAre(ElementsAre(2, 4, 4), ElementsAre(2, 4, 1, 2), ElementsAre(2, 4), ElementsAre(2),
                          ElementsAre(2, 4), ElementsAre(2, 1, 2), ElementsAre(2)));
  EXPECT_THAT(PartsWith(OwnBuffers(3)).front(), ElementsAre(2, 4, 6));
}

TEST(EqualParts, PartsThatRanksCannotHave) {
  const auto refusal = [](const TargetOptions& options, const std::vector<LogicalTensor>& tensors) {
    auto parts = EqualPartsOf(options, Training(), tensors);
    return parts ? "" : TakeFailure(parts.takeError()).message;
  };
  EXPECT_THAT(refusal(OwnBuffers(5), kTensors), HasSubstr("which 5 tensor-parallel ranks do not share out evenly"));
  EXPECT_THAT(refusal(OwnBuffers(), {TensorOf("decoder.layers.0.mlp.unknown", {4})}),
              HasSubstr("it is not known how ranks share `decoder.layers.0.mlp.unknown`"));
  EXPECT_THAT(refusal(OwnBuffers(), {TensorOf("decoder.layers.0.mlp.experts.linear_fc1.weight3", {4, 2})}),
              HasSubstr("is a single expert's"));
  EXPECT_THAT(refusal(OwnBuffers(1 << 12), {TensorOf("decoder.layers.mlp.linear_fc1.bias", {1 << 12, 1 << 12})}),
              HasSubstr("which ranks have in more than 1048576 parts"));
  const std::vector<LogicalTensor> empty = {TensorOf("decoder.layers.mlp.linear_fc2.bias", {2, 0})};
  EXPECT_THAT(refusal(OwnBuffers(), empty), HasSubstr("has the shape [2, 0] and so no elements"));
  EXPECT_THAT(refusal(Fsdp(), empty), HasSubstr("has the shape [2, 0] and so no elements"));
  EXPECT_THAT(refusal({}, empty), IsEmpty());
}

}  // namespace
}  // namespace ucp::megatron
