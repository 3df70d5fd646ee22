#include "compiler/formats/megatron/rules/module_order.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModuleOrderTest : public ::testing::Test {
 protected:
  void Say(const std::string& name, FactValue value) { facts_["args." + name] = {std::move(value), "common.pt"}; }

  void SetUp() override {
    Say("num_layers", {std::int64_t{2}});
    Say("pipeline_model_parallel_size", {std::int64_t{2}});
    Say("transformer_impl", {std::string("transformer_engine")});
  }

  StageOrder Order(const std::vector<std::string>& keys, const std::vector<std::int64_t>& shape = {2, 4}) {
    entries_.clear();
    for (const std::string& key : keys) {
      dcp::Entry entry;
      entry.key = key;
      entry.shape = shape;
      entry.chunks.resize(shape.size() > 2 ? 4 : 2);
      entries_.push_back(std::move(entry));
    }
    std::vector<const dcp::Entry*> tensors;
    for (const dcp::Entry& entry : entries_) tensors.push_back(&entry);
    return OrderOfStages(tensors, Arguments(facts_));
  }

  static std::vector<std::string> Names(const std::vector<ModuleParameter>& stage) {
    std::vector<std::string> names;
    for (const ModuleParameter& parameter : stage) {
      const std::string place = fmt::format("@{}", fmt::join(parameter.place, "."));
      names.push_back(parameter.place.empty() ? parameter.tensor->key : parameter.tensor->key + place);
    }
    return names;
  }

  std::map<std::string, Fact> facts_;
  std::vector<dcp::Entry> entries_;
};

constexpr const char* kWords = "embedding.word_embeddings.weight";
constexpr const char* kNorm = "decoder.layers.self_attention.linear_qkv.layer_norm_weight";
constexpr const char* kProjectionKey = "decoder.layers.self_attention.linear_proj.weight";

TEST_F(ModuleOrderTest, TransformerEngineHasNormsInLinearLayers) {
  const StageOrder order = Order({kNorm, kWords, kProjectionKey, "output_layer.weight"});
  EXPECT_EQ(order.unread, "");
  ASSERT_EQ(order.stages.size(), 2u);
  EXPECT_THAT(Names(order.stages[0]),
              ElementsAre(kWords, fmt::format("{}@0", kProjectionKey), fmt::format("{}@0", kNorm)));
  EXPECT_THAT(Names(order.stages[1]),
              ElementsAre(fmt::format("{}@1", kProjectionKey), fmt::format("{}@1", kNorm), "output_layer.weight"));
}

TEST_F(ModuleOrderTest, OwnLayersHaveNormsBeforeThem) {
  Say("transformer_impl", {std::string("local")});
  const StageOrder order = Order({kWords, kProjectionKey, kNorm, "output_layer.weight"});
  EXPECT_THAT(Names(order.stages[1]),
              ElementsAre(fmt::format("{}@1", kNorm), fmt::format("{}@1", kProjectionKey), "output_layer.weight"));
}

TEST_F(ModuleOrderTest, LastStageHasCopyOfTiedEmbedding) {
  EXPECT_THAT(Names(Order({kWords, kNorm}).stages[1]), ElementsAre(fmt::format("{}@1", kNorm), kWords));
}

TEST_F(ModuleOrderTest, LayersMayHaveNumbers) {
  const std::string third = "decoder.layers.1.mlp.linear_fc2.weight";
  EXPECT_THAT(Names(Order({kWords, third, "output_layer.weight"}).stages[1]),
              ElementsAre(third, "output_layer.weight"));
}

constexpr const char* kFirstOfExperts = "decoder.layers.mlp.experts.experts.linear_fc1.weight";
constexpr const char* kSecondOfExperts = "decoder.layers.mlp.experts.experts.linear_fc2.weight";

TEST_F(ModuleOrderTest, ExpertsAreModulesOneAfterTheOther) {
  const StageOrder order = Order({kFirstOfExperts, kSecondOfExperts}, {2, 2, 3});
  EXPECT_EQ(order.unread, "");
  EXPECT_THAT(Names(order.stages[1]),
              ElementsAre(fmt::format("{}@1.0", kFirstOfExperts), fmt::format("{}@1.0", kSecondOfExperts),
                          fmt::format("{}@1.1", kFirstOfExperts), fmt::format("{}@1.1", kSecondOfExperts)));
  EXPECT_TRUE(order.stages[1].front().is_of_expert);
}

TEST_F(ModuleOrderTest, GroupedExpertsAreOneModule) {
  Say("moe_grouped_gemm", {true});
  EXPECT_THAT(Names(Order({kFirstOfExperts, kSecondOfExperts}, {2, 2, 3}).stages[0]),
              ElementsAre(fmt::format("{}@0.0", kFirstOfExperts), fmt::format("{}@0.1", kFirstOfExperts),
                          fmt::format("{}@0.0", kSecondOfExperts), fmt::format("{}@0.1", kSecondOfExperts)));
}

TEST_F(ModuleOrderTest, ExpertsStandBetweenRouterAndSharedOnes) {
  const std::string layer = "decoder.layers.1.mlp.";
  EXPECT_THAT(Names(Order({layer + "shared_experts.linear_fc1.weight", layer + "experts.experts.linear_fc1.weight",
                           layer + "router.weight"})
                        .stages[1]),
              ElementsAre(layer + "router.weight", layer + "experts.experts.linear_fc1.weight@0",
                          layer + "experts.experts.linear_fc1.weight@1", layer + "shared_experts.linear_fc1.weight"));
}

TEST_F(ModuleOrderTest, ExpertsMayHaveOneMatrixAlone) {
  const StageOrder order = Order({kSecondOfExperts}, {2, 2, 3});
  EXPECT_EQ(order.unread, "");
  EXPECT_THAT(Names(order.stages[1]),
              ElementsAre(fmt::format("{}@1.0", kSecondOfExperts), fmt::format("{}@1.1", kSecondOfExperts)));
}

// Each expert has a chunk of its own.
TEST_F(ModuleOrderTest, CountsNoMoreExpertsThanThereAreChunks) {
  EXPECT_EQ(Order({kFirstOfExperts}, {2, std::int64_t{1} << 40, 3}).stages[0].size(), 2u);
  EXPECT_EQ(Order({kFirstOfExperts}, {0, 7, 3}).stages[0].size(), 4u);
}

TEST_F(ModuleOrderTest, RefusesExpertsThatAreCutInOtherWays) {
  Say("expert_tensor_parallel_size", {std::int64_t{2}});
  EXPECT_THAT(Order({kFirstOfExperts}).unread, HasSubstr("not known with `args.expert_tensor_parallel_size`"));
  Say("expert_model_parallel_size", {std::int64_t{2}});
  EXPECT_EQ(Order({kFirstOfExperts}, {2, 2, 3}).unread, "");
  Say("moe_grouped_gemm", {true});
  Say("transformer_impl", {std::string("local")});
  EXPECT_THAT(Order({kFirstOfExperts}).unread, HasSubstr("not known with `args.moe_grouped_gemm`"));
  Say("moe_use_legacy_grouped_gemm", {true});
  EXPECT_THAT(Order({kFirstOfExperts}).unread, HasSubstr("not known with `args.moe_use_legacy_grouped_gemm`"));
}

TEST_F(ModuleOrderTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Order({"decoder.layers.mlp.fc1_latent_proj.weight"}).unread,
              HasSubstr("the place of `decoder.layers.mlp.fc1_latent_proj.weight` in the order"));
  EXPECT_THAT(Order({"vision.weight"}).unread, HasSubstr("the place of `vision.weight`"));
  Say("num_layers", {std::int64_t{5}});
  EXPECT_THAT(Order({kNorm, kWords}).unread, HasSubstr("`args.num_layers`, which is 5"));
  Say("num_layers", {std::int64_t{1} << 40});
  EXPECT_THAT(Order({kNorm, kWords}).unread, HasSubstr("and the tensors of the model have 4 chunks"));
  Say("account_for_loss_in_pipeline_split", {false});
  Say("virtual_pipeline_model_parallel_size", {std::int64_t{2}});
  EXPECT_THAT(Order({kNorm}).unread, HasSubstr("not known with `args.virtual_pipeline_model_parallel_size`"));
}

}  // namespace
}  // namespace ucp::megatron
