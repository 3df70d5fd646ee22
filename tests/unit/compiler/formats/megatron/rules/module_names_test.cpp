#include "compiler/formats/megatron/rules/module_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ucp::megatron {
namespace {

constexpr ModuleForm kLocal{.has_norms_of_their_own = true};
constexpr ModuleForm kGrouped{.has_grouped_experts = true};

std::string NameOf(std::string_view key, std::vector<std::int64_t> place, const ModuleForm& form = {}) {
  return NameInModule(key, place, form);
}

TEST(ModuleNames, LayersAndExpertsHaveNumbers) {
  EXPECT_EQ(NameOf("decoder.layers.mlp.linear_fc2.weight", {3}), "decoder.layers.3.mlp.linear_fc2.weight");
  EXPECT_EQ(NameOf("decoder.layers.3.mlp.linear_fc2.weight", {}), "decoder.layers.3.mlp.linear_fc2.weight");
  EXPECT_EQ(NameOf("output_layer.weight", {}), "output_layer.weight");
  EXPECT_EQ(NameOf("decoder.layers.mlp.experts.experts.linear_fc1.bias", {3, 5}),
            "decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.bias");
  EXPECT_EQ(NameOf("decoder.layers.3.mlp.experts.experts.linear_fc1.bias", {5}, kGrouped),
            "decoder.layers.3.mlp.experts.linear_fc1.bias5");
}

TEST(ModuleNames, NormsOfTheirOwn) {
  constexpr const char* kAttention = "decoder.layers.self_attention.linear_qkv.layer_norm_weight";
  EXPECT_EQ(NameOf(kAttention, {0}, kLocal), "decoder.layers.0.input_layernorm.weight");
  EXPECT_EQ(NameOf(kAttention, {0}), "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_EQ(NameOf("decoder.layers.mlp.linear_fc1.layer_norm_bias", {1}, kLocal),
            "decoder.layers.1.pre_mlp_layernorm.bias");
  EXPECT_EQ(KeyOfModule("decoder.layers.0.input_layernorm.weight", kLocal),
            "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_EQ(KeyOfModule("decoder.layers.0.pre_mlp_layernorm.weight", {}), "decoder.layers.0.pre_mlp_layernorm.weight");
}

TEST(ModuleNames, SingleExperts) {
  for (const char* name : {"decoder.layers.1.mlp.experts.local_experts.12.linear_fc2.weight",
                           "decoder.layers.1.mlp.experts.linear_fc2.weight12"}) {
    const auto expert = ExpertIn(name);
    ASSERT_TRUE(expert) << name;
    EXPECT_EQ(expert->key, "decoder.layers.1.mlp.experts.experts.linear_fc2.weight");
    EXPECT_EQ(expert->number, 12);
  }
  for (const char* name :
       {"decoder.layers.mlp.experts.experts.linear_fc2.weight", "decoder.layers.1.mlp.linear_fc2.weight",
        "decoder.layers.1.mlp.shared_experts.linear_fc2.weight", "decoder.layers.1.mlp.experts.linear_fc2.weight",
        "decoder.layers.1.mlp.experts.linear_fc2.weight012",
        "decoder.layers.1.mlp.experts.local_experts.x.linear_fc2.weight", "a.experts.3", "a.experts.local_experts.3",
        "a.experts.local_experts.3."}) {
    EXPECT_FALSE(ExpertIn(name)) << name;
  }
}

}  // namespace
}  // namespace ucp::megatron
