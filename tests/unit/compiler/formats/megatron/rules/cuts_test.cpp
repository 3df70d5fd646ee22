#include "compiler/formats/megatron/rules/cuts.h"

#include <gtest/gtest.h>

namespace ucp::megatron {
namespace {

TEST(Cuts, OfStackedAndOfNumberedLayers) {
  EXPECT_EQ(CutOf("decoder.layers.mlp.linear_fc2.weight"), Cut::kColumns);
  EXPECT_EQ(CutOf("decoder.layers.3.mlp.linear_fc2.weight"), Cut::kColumns);
  EXPECT_EQ(CutOf("decoder.layers.3.mlp.experts.experts.linear_fc1.bias"), Cut::kHalves);
  EXPECT_EQ(CutOf("decoder.layers.self_attention.linear_qkv.layer_norm_weight"), Cut::kWhole);
  EXPECT_EQ(CutOf("output_layer.weight"), Cut::kRows);
}

TEST(Cuts, OfOthersAreNotKnown) {
  EXPECT_EQ(CutOf("decoder.layers.self_attention.linear_q_down_proj.weight"), std::nullopt);
  EXPECT_EQ(CutOf("decoder.layers."), std::nullopt);
  EXPECT_EQ(CutOf("mtp.layers.0.eh_proj.weight"), std::nullopt);
}

TEST(Cuts, SplitsTheNumberOfALayerOff) {
  EXPECT_EQ(SplitLayer("decoder.layers.3.mlp.a"), std::pair(std::optional<std::int64_t>(3), std::string_view("mlp.a")));
  EXPECT_EQ(SplitLayer("decoder.layers.mlp.a").first, std::nullopt);
  EXPECT_EQ(SplitLayer("decoder.layers.3"), std::pair(std::optional<std::int64_t>(), std::string_view("3")));
}

}  // namespace
}  // namespace ucp::megatron
