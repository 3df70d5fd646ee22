#include "compiler/formats/dcp/entries/megatron_fsdp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Entry Matrix(std::string key, std::vector<PathPart> path, std::int64_t rows) {
  Entry entry;
  entry.key = std::move(key);
  entry.path = std::move(path);
  entry.is_tensor = true;
  entry.shape = {rows, 4};
  entry.chunks = {{{0, 0}, {rows - 1, 4}, {}}, {{rows - 1, 0}, {1, 4}, {}}};
  return entry;
}

Entry ValueOf(std::string key) {
  Entry entry;
  entry.key = std::move(key);
  entry.path = {entry.key};
  return entry;
}

std::string RefusalOf(std::vector<Entry> entries) {
  llvm::Error error = RenameMegatronFsdp(entries);
  return error ? TakeFailure(std::move(error)).message : "";
}

TEST(MegatronFsdp, IsKnownByItsOwnNames) {
  EXPECT_TRUE(IsOfMegatronFsdp(std::vector{ValueOf("optimizer.param_to_group_meta.module.a.lr")}));
  EXPECT_TRUE(IsOfMegatronFsdp(
      std::vector{ValueOf("model.module.a.mlp.linear_fc1.bias_w"), ValueOf("model.module.a.mlp.linear_fc1.bias_v")}));
  EXPECT_FALSE(
      IsOfMegatronFsdp(std::vector{ValueOf("model.module.a.mlp.linear_fc1.weight"), ValueOf("optimizer.state.a")}));
  EXPECT_FALSE(
      IsOfMegatronFsdp(std::vector{ValueOf("model.a.proj_w"), ValueOf("model.a.linear_fc1.layer_norm_weight")}));
}

TEST(MegatronFsdp, TakesNoNormsOfWeightsForHalves) {
  EXPECT_FALSE(
      IsOfMegatronFsdp(std::vector{ValueOf("model.linear_fc1.weight_g"), ValueOf("model.linear_fc1.weight_v")}));
  EXPECT_FALSE(
      IsOfMegatronFsdp(std::vector{ValueOf("model.linear_fc1.weight_orig"), ValueOf("model.linear_fc1.weight_u"),
                                   ValueOf("model.linear_fc1.weight_v")}));
  EXPECT_FALSE(
      IsOfMegatronFsdp(std::vector{ValueOf("model.a.linear_fc1.weight_w"), ValueOf("model.b.linear_fc1.weight_v")}));
}

TEST(MegatronFsdp, JoinsHalvesAndKeepsTheirChunks) {
  std::vector<Entry> entries = {
      Matrix("model.module.l.linear_fc1.weight_v", {"model", "module.l.linear_fc1.weight_v"}, 3),
      Matrix("model.module.l.linear_fc1.weight_w", {"model", "module.l.linear_fc1.weight_w"}, 3)};
  ASSERT_EQ(RefusalOf(entries), "");
  llvm::cantFail(RenameMegatronFsdp(entries));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].key, "model.l.linear_fc1.weight");
  EXPECT_THAT(entries[0].path, ElementsAre(PathPart("model"), PathPart("l.linear_fc1.weight")));
  EXPECT_THAT(entries[0].shape, ElementsAre(6, 4));
  std::vector<std::int64_t> rows;
  for (const Chunk& chunk : entries[0].chunks) rows.push_back(chunk.offsets[0]);
  EXPECT_THAT(rows, ElementsAre(0, 2, 3, 5));
}

TEST(MegatronFsdp, NamesStatesAndSettingsAsGetStateDictDoes) {
  std::vector<Entry> entries = {ValueOf("optimizer.state.module.module.a.bias.exp_avg"),
                                ValueOf("optimizer.param_to_group_meta.module.module.a.bias.lr"),
                                ValueOf("model.module.decoder.layers.0.input_layernorm.weight"),
                                ValueOf("model.module.decoder.layers.0.self_attention.linear_qkv.weight"),
                                ValueOf("model.module.decoder.layers.0.pre_mlp_layernorm.weight"),
                                ValueOf("rng_state.(0, 0).0.seed")};
  entries[1].path = {"optimizer", "param_to_group_meta", "module.module.a.bias", "lr"};
  llvm::cantFail(RenameMegatronFsdp(entries));
  std::vector<std::string> keys;
  for (const Entry& entry : entries) keys.push_back(entry.key);
  EXPECT_THAT(keys, ElementsAre("optimizer.state.a.bias.exp_avg", "optimizer.param_groups.a.bias.lr",
                                "model.decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
                                "model.decoder.layers.0.self_attention.linear_qkv.weight",
                                "model.decoder.layers.0.pre_mlp_layernorm.weight", "rng_state.(0, 0).0.seed"));
  EXPECT_THAT(entries[1].path,
              ElementsAre(PathPart("optimizer"), PathPart("param_groups"), PathPart("a.bias"), PathPart("lr")));
  EXPECT_THAT(entries[0].path, ElementsAre(PathPart("optimizer.state.a.bias.exp_avg")));
}

// Transformer Engine's optimizer has a step among the settings alone, and a folder for either has both.
TEST(MegatronFsdp, TakesStepsOfSettings) {
  std::vector<Entry> entries = {ValueOf("optimizer.param_to_group_meta.module.module.a.bias.step"),
                                ValueOf("optimizer.param_to_group_meta.module.module.b.bias.step"),
                                ValueOf("optimizer.state.module.module.b.bias.step")};
  entries[0].path = {"optimizer", "param_to_group_meta", "module.module.a.bias", "step"};
  llvm::cantFail(RenameMegatronFsdp(entries));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].key, "optimizer.state.a.bias.step");
  EXPECT_THAT(entries[0].path,
              ElementsAre(PathPart("optimizer"), PathPart("state"), PathPart("a.bias"), PathPart("step")));
  EXPECT_EQ(entries[1].key, "optimizer.state.b.bias.step");
}

TEST(MegatronFsdp, RefusesHalfOfATensor) {
  const Entry gate = Matrix("model.l.linear_fc1.weight_w", {"model", "l.linear_fc1.weight_w"}, 3);
  const Entry up = Matrix("model.l.linear_fc1.weight_v", {"model", "l.linear_fc1.weight_v"}, 2);
  EXPECT_THAT(RefusalOf({gate}), HasSubstr("`model.l.linear_fc1.weight_w` and lacks its other half"));
  EXPECT_THAT(RefusalOf({up}), HasSubstr("lacks `model.l.linear_fc1.weight_w`"));
  EXPECT_THAT(RefusalOf({gate, up}), HasSubstr("has the shape [3, 4]"));
  Entry half = gate;
  Entry other = up;
  half.shape = other.shape = {std::int64_t{1} << 30, std::int64_t{1} << 30};
  EXPECT_THAT(RefusalOf({half, other}), HasSubstr("[2147483648, 1073741824] of float32 is not the size of a tensor"));
}

}  // namespace
}  // namespace ucp::dcp
