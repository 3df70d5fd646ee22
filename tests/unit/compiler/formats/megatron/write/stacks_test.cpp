#include "compiler/formats/megatron/write/stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

LogicalTensor TensorCalled(std::string name, std::vector<std::int64_t> shape = {3}) {
  LogicalTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.states = {{kMasterState, DType::kFloat32}};
  return tensor;
}

// "decoder.layers.a: 0 1", one for each stack; or the refusal.
std::vector<std::string> StacksIn(const std::vector<LogicalTensor>& tensors, bool keeps_numbers = false) {
  auto stacks = StacksOf(tensors, keeps_numbers);
  if (!stacks) return {TakeFailure(stacks.takeError()).message};
  std::vector<std::string> lines;
  for (const Stack& stack : *stacks) {
    lines.push_back(
        fmt::format("{}{} {}", stack.key, stack.shape.empty() ? " is" : ":", fmt::join(stack.tensors, " ")));
  }
  return lines;
}

TEST(StacksTest, LayersThatAreAlike) {
  const std::vector<LogicalTensor> tensors = {TensorCalled("decoder.final_layernorm.weight"),
                                              TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.0.b.c"),
                                              TensorCalled("decoder.layers.1.a"), TensorCalled("decoder.layers.1.b.c")};
  EXPECT_THAT(StacksIn(tensors),
              ElementsAre("decoder.final_layernorm.weight is 0", "decoder.layers.a: 1 3", "decoder.layers.b.c: 2 4"));
  EXPECT_THAT(StacksIn(tensors, true),
              ElementsAre("decoder.final_layernorm.weight is 0", "decoder.layers.0.a is 1", "decoder.layers.0.b.c is 2",
                          "decoder.layers.1.a is 3", "decoder.layers.1.b.c is 4"));
}

// By their numbers, of which the names' order is not that.
TEST(StacksTest, ManyLayers) {
  std::vector<LogicalTensor> tensors;
  for (const int layer : {0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9}) {
    tensors.push_back(TensorCalled(fmt::format("decoder.layers.{}.a", layer)));
  }
  EXPECT_THAT(StacksIn(tensors), ElementsAre("decoder.layers.a: 0 1 3 4 5 6 7 8 9 10 2"));
}

TEST(StacksTest, LayersThatDiffer) {
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.1.a", {4})}),
              ElementsAre("decoder.layers.0.a is 0", "decoder.layers.1.a is 1"));
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.2.a")}),
              ElementsAre("decoder.layers.0.a is 0", "decoder.layers.2.a is 1"));
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.1.a"),
                        TensorCalled("decoder.layers.1.b")}),
              ElementsAre("decoder.layers.0.a is 0", "decoder.layers.1.a is 1", "decoder.layers.1.b is 2"));
}

TEST(StacksTest, NumbersThatAreNotWrittenAsSuch) {
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.00.a"),
                        TensorCalled("decoder.layers.1.a")}),
              ElementsAre("decoder.layers.00.a is 1", "decoder.layers.a: 0 2"));
}

TEST(StacksTest, NamesThatMeanSomethingElse) {
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.a"), TensorCalled("decoder.layers.a")}),
              ElementsAre("`decoder.layers.a` is there as one tensor and as numbered layers or experts"));
  for (const char* name : {"optimizer.state.exp_avg.decoder.a", "chained_0.optimizer.state.exp_avg.decoder.a"}) {
    EXPECT_THAT(StacksIn({TensorCalled("decoder.a"), TensorCalled(name)}),
                ElementsAre(HasSubstr("would be read as a state of Megatron Core's optimizer")));
  }
}

TEST(StacksTest, MorePlacesThanAreCutApart) {
  EXPECT_FALSE(CheckPlaces(std::vector{TensorCalled("decoder.layers.a", {1 << 20, 0})}));
  const std::int64_t many = std::int64_t{1} << 40;
  for (const LogicalTensor& tensor : {TensorCalled("decoder.layers.a", {many, 0}),
                                      TensorCalled("decoder.layers.mlp.experts.experts.a", {many, many, 0})}) {
    llvm::Error error = CheckPlaces(std::vector{tensor});
    ASSERT_TRUE(static_cast<bool>(error));
    EXPECT_THAT(TakeFailure(std::move(error)).message, HasSubstr("of more than 1048576 layers and experts"));
  }
}

// In both forms: layer after layer, and in each expert after expert.
TEST(StacksTest, ExpertsOneByOne) {
  for (const char* form : {"decoder.layers.{}.mlp.experts.local_experts.{}.linear_fc2.weight",
                           "decoder.layers.{}.mlp.experts.linear_fc2.weight{}"}) {
    std::vector<LogicalTensor> tensors;
    for (const int layer : {0, 1}) {
      for (const int expert : {0, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
        tensors.push_back(TensorCalled(fmt::format(fmt::runtime(form), layer, expert)));
      }
    }
    EXPECT_THAT(
        StacksIn(tensors),
        ElementsAre("decoder.layers.mlp.experts.experts.linear_fc2.weight: 0 3 4 5 6 7 8 9 10 11 1 2 12 15 16 17 "
                    "18 19 20 21 22 23 13 14"));
    EXPECT_THAT(llvm::cantFail(StacksOf(tensors, false)).front().shape, ElementsAre(2, 12));
    tensors.pop_back();  // The ninth of the second layer.
    EXPECT_THAT(StacksIn(tensors), ElementsAre(HasSubstr("is one of 11 experts")));
  }
}

TEST(StacksTest, ExpertsThatAreNotAllThere) {
  std::vector<LogicalTensor> tensors;
  for (const char* matrix : {"linear_fc1", "linear_fc2"}) {
    for (const int expert : {0, 1, 2}) {
      tensors.push_back(TensorCalled(fmt::format("decoder.layers.0.mlp.experts.{}.weight{}", matrix, expert)));
    }
  }
  EXPECT_THAT(StacksIn(tensors), SizeIs(2));
  tensors.pop_back();
  EXPECT_THAT(StacksIn(tensors), ElementsAre(HasSubstr(".linear_fc1.weight2` is one of 3 experts, and "
                                                       "`decoder.layers.0.mlp.experts.linear_fc2.weight1` one of 2")));
}

TEST(StacksTest, TensorsThatModulesDoNotHave) {
  const auto refusal = [](LogicalTensor tensor) {
    llvm::Error error = CheckTensorsOfModules(std::vector{std::move(tensor)});
    return error ? TakeFailure(std::move(error)).message : "";
  };
  for (const char* name : {"decoder.layers.0.mlp.experts.experts.3.linear_fc1.bias",
                           "decoder.layers.0.mlp.linear_fc1.weight_w", "decoder.layers.0.mlp.linear_fc1.bias_v",
                           "decoder.layers.0.mixer.in_proj.weight.z", "decoder.layers.0.mixer.conv1d.bias.B"}) {
    EXPECT_THAT(refusal(TensorCalled(name)), HasSubstr(fmt::format("`{}` is a part of a module's tensor", name)));
  }
  for (const char* name :
       {"decoder.layers.0.mlp.experts.local_experts.3.linear_fc1.weight", "decoder.layers.0.mixer.conv1d.weight",
        "decoder.layers.0.self_attention.linear_v.weight", "decoder.layers.scale"}) {
    EXPECT_EQ(refusal(TensorCalled(name)), "");
  }
  EXPECT_THAT(refusal(TensorCalled("decoder.layers.scale", {})), HasSubstr("the shape [], and its name"));
  EXPECT_THAT(refusal(TensorCalled("decoder.layers.mlp.experts.experts.a", {2})),
              HasSubstr("whose first 2 dimensions"));
}

TEST(StacksTest, ExpertsThatDiffer) {
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.mlp.experts.linear_fc2.bias0"),
                        TensorCalled("decoder.layers.0.mlp.experts.linear_fc2.bias1", {4})}),
              ElementsAre(HasSubstr("linear_fc2.bias0` and `decoder.layers.0.mlp.experts.linear_fc2.bias1` differ")));
}

TEST(StacksTest, NormsOfTheirOwn) {
  const std::vector<LogicalTensor> tensors = {TensorCalled("decoder.layers.0.input_layernorm.weight"),
                                              TensorCalled("decoder.layers.0.pre_mlp_layernorm.weight")};
  std::vector<std::string> keys;
  for (const Stack& stack : llvm::cantFail(StacksOf(tensors, false, {.has_norms_of_their_own = true}))) {
    keys.push_back(stack.key);
  }
  EXPECT_THAT(keys, ElementsAre("decoder.layers.mlp.linear_fc1.layer_norm_weight",
                                "decoder.layers.self_attention.linear_qkv.layer_norm_weight"));
}

TEST(StacksTest, StackedAlready) {
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.mlp.experts.experts.linear_fc1.weight", {2, 4, 3})}),
              ElementsAre("decoder.layers.mlp.experts.experts.linear_fc1.weight is 0"));
}

TEST(StacksTest, OtherNames) {
  EXPECT_THAT(StacksIn({TensorCalled("model.layers.0.a")}), ElementsAre(HasSubstr("the first is `model.layers.0.a`")));
  EXPECT_THAT(StacksIn({}), ElementsAre(HasSubstr("none begins with `decoder.`")));
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.mlp.experts.linear_fc1.weight3")}),
              ElementsAre(HasSubstr("`decoder.layers.0.mlp.experts.linear_fc1.weight3` is one of 1 experts")));
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.mlp.experts.weight1"),
                        TensorCalled("decoder.layers.0.mlp.experts.weight2")}),
              ElementsAre(HasSubstr("`decoder.layers.0.mlp.experts.weight2` is one of 2 experts")));
  EXPECT_THAT(StacksIn({TensorCalled("decoder.layers.0.mlp.experts.linear_fc1.weight")}),
              ElementsAre(HasSubstr("is not called as Megatron Core calls tensors of experts")));
}

}  // namespace
}  // namespace ucp::megatron
