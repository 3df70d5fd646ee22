#include "compiler/formats/megatron/module_order.h"

#include <fmt/format.h>
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

  StageOrder Order(const std::vector<std::string>& keys) {
    entries_.clear();
    for (const std::string& key : keys) {
      dcp::Entry entry;
      entry.key = key;
      entry.shape = {2, 4};
      entry.chunks.resize(2);
      entries_.push_back(std::move(entry));
    }
    std::vector<const dcp::Entry*> tensors;
    for (const dcp::Entry& entry : entries_) tensors.push_back(&entry);
    return OrderOfStages(tensors, Arguments(facts_));
  }

  static std::vector<std::string> Names(const std::vector<ModuleParameter>& stage) {
    std::vector<std::string> names;
    for (const ModuleParameter& parameter : stage) {
      names.push_back(parameter.layer ? fmt::format("{}@{}", parameter.tensor->key, *parameter.layer)
                                      : parameter.tensor->key);
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

TEST_F(ModuleOrderTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Order({"decoder.layers.mlp.router.weight"}).unread,
              HasSubstr("the place of `decoder.layers.mlp.router.weight` in the order"));
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
