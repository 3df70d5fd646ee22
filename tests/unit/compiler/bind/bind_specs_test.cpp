// The specs that we ship, against checkpoints whose names and shapes are written down here by hand: the numbers of
// ranks' rows below are computed on paper from Megatron-DeepSpeed's rules, not by the code under test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/bind/bind.h"
#include "compiler/bind/print_bound_spec.h"
#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Compiled {
  std::optional<CheckedSpec> spec;
  std::string messages;
};

Compiled Compile(const std::string& name) {
  auto source = Source::FromFile(std::string(UCP_SOURCE_DIR) + "/specs/" + name);
  EXPECT_TRUE(bool(source)) << name;
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  Compiled compiled;
  if (file) compiled.spec = CheckSpec(*file, *source, sink);
  compiled.messages = RenderText(*source, sink);
  return compiled;
}

// Writes shards at every tensor rank of one stage.
class Checkpoint {
 public:
  Checkpoint(std::int64_t pp, std::int64_t tp) : tp_(tp) { inventory_.mesh.axes = {{"pp", pp}, {"dp", 3}, {"tp", tp}}; }

  Checkpoint& Fact(const std::string& path, std::int64_t value) {
    inventory_.facts[path] = {{value}, "metadata.pt"};
    return *this;
  }

  Checkpoint& Tensor(const std::string& name, std::vector<std::int64_t> shape, std::int64_t stage) {
    for (std::int64_t tp = 0; tp < tp_; ++tp) {
      Shard shard;
      shard.tensor = name;
      shard.coordinate.at = {{"pp", stage}, {"tp", tp}};
      shard.shape = shape;
      inventory_.storage.shards.push_back(shard);
    }
    return *this;
  }

  Inventory& inventory() { return inventory_; }

 private:
  std::int64_t tp_;
  Inventory inventory_;
};

// 4 layers, 16 wide, 4 heads of 4, 65 words padded to a multiple of 8 for each tensor rank, 12 positions.
Checkpoint Gpt(std::int64_t pp, std::int64_t tp) {
  std::int64_t rows = tp == 1 ? 72 : tp == 2 ? 40 : 24;  // 72 / 1, 80 / 2, 96 / 4.
  Checkpoint checkpoint(pp, tp);
  checkpoint.Fact("args.num_layers", 4).Fact("args.hidden_size", 16).Fact("args.num_attention_heads", 4);
  checkpoint.Fact("info.original_vocab_size", 65).Fact("args.make_vocab_size_divisible_by", 8);
  checkpoint.Fact("args.max_position_embeddings", 12);
  for (std::int64_t stage = 0; stage < pp; stage += pp == 1 ? 1 : pp - 1) {
    checkpoint.Tensor("tied_modules.embed.word_embeddings.weight", {rows, 16}, stage);
    checkpoint.Tensor("tied_modules.embed.position_embeddings.weight", {12, 16}, stage);
  }
  const char* layers[] = {"3", "4", "5", "6"};
  for (int i = 0; i < 4; ++i) {
    std::string layer = layers[i];
    std::int64_t stage = pp == 1 ? 0 : i / 2;
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      checkpoint.Tensor(layer + "." + norm + ".weight", {16}, stage).Tensor(layer + "." + norm + ".bias", {16}, stage);
    }
    checkpoint.Tensor(layer + ".self_attention.query_key_value.weight", {48 / tp, 16}, stage);
    checkpoint.Tensor(layer + ".self_attention.query_key_value.bias", {48 / tp}, stage);
    checkpoint.Tensor(layer + ".self_attention.dense.weight", {16, 16 / tp}, stage);
    checkpoint.Tensor(layer + ".self_attention.dense.bias", {16}, stage);
    checkpoint.Tensor(layer + ".mlp.dense_h_to_4h.weight", {64 / tp, 16}, stage);
    checkpoint.Tensor(layer + ".mlp.dense_h_to_4h.bias", {64 / tp}, stage);
    checkpoint.Tensor(layer + ".mlp.dense_4h_to_h.weight", {16, 64 / tp}, stage);
    checkpoint.Tensor(layer + ".mlp.dense_4h_to_h.bias", {16}, stage);
  }
  checkpoint.Tensor("8.weight", {16}, pp - 1).Tensor("8.bias", {16}, pp - 1);
  return checkpoint;
}

struct Bound {
  std::optional<BoundSpec> spec;
  std::optional<Layout> layout;
  std::vector<Diagnostic> diagnostics;
};

Bound Bind(const CheckedSpec& spec, const Inventory& inventory, const std::map<std::string, std::int64_t>& dims = {}) {
  Settings set;
  for (const auto& [name, value] : dims) set[name] = {value};
  DiagnosticSink sink;
  Bound bound;
  bound.spec = BindSpec(spec, inventory, set, sink);
  if (bound.spec) bound.layout = LowerToMesh(*bound.spec, {.mesh = inventory.mesh, .stage_layers = {}}, sink);
  bound.diagnostics = sink.Sorted();
  return bound;
}

std::vector<std::string> Messages(const Bound& bound) {
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : bound.diagnostics) messages.push_back(diagnostic.message);
  return messages;
}

class GptDegrees : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(GptDegrees, BindsEveryTensor) {
  auto [pp, tp] = GetParam();
  Compiled gpt = Compile("megatron_deepspeed_gpt.ucp");
  ASSERT_TRUE(gpt.spec) << gpt.messages;
  EXPECT_EQ(gpt.messages, "");
  Checkpoint checkpoint = Gpt(pp, tp);
  Bound bound = Bind(*gpt.spec, checkpoint.inventory());
  EXPECT_THAT(Messages(bound), ElementsAre());
  ASSERT_TRUE(bound.layout);
  EXPECT_EQ(bound.layout->tensors.size(), 2u + 4 * 12 + 2);
  EXPECT_FALSE(bool(VerifyLayout(*bound.layout)));
  for (const Shard& shard : checkpoint.inventory().storage.shards) {
    const TensorLayout* tensor = bound.layout->Find(shard.tensor);
    ASSERT_NE(tensor, nullptr) << shard.tensor;
    auto held = HeldAt(*tensor, bound.layout->mesh, shard.coordinate);
    ASSERT_TRUE(bool(held));
    EXPECT_EQ(held->LocalShape(), shard.shape) << shard.tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, GptDegrees,
                         testing::Values(std::pair(1, 1), std::pair(1, 2), std::pair(1, 4), std::pair(2, 1),
                                         std::pair(2, 2), std::pair(2, 4)));

TEST(BindSpecs, GptTensorsHoldWhatMegatronCuts) {
  Compiled gpt = Compile("megatron_deepspeed_gpt.ucp");
  Checkpoint checkpoint = Gpt(2, 2);
  Bound bound = Bind(*gpt.spec, checkpoint.inventory());
  ASSERT_TRUE(bound.layout);
  const Mesh& mesh = bound.layout->mesh;
  auto rows = [&](const char* name, std::int64_t tp) {
    auto held = HeldAt(*bound.layout->Find(name), mesh, Coordinate{{{"tp", tp}}});
    return ToString(*held);
  };
  EXPECT_EQ(rows("3.self_attention.query_key_value.weight", 1), "[24..48, 0..16]");
  EXPECT_EQ(rows("3.self_attention.dense.weight", 1), "[0..16, 8..16]");
  EXPECT_EQ(rows("tied_modules.embed.word_embeddings.weight", 1), "[40..65 pad 15, 0..16]");
  EXPECT_EQ(bound.layout->Find("tied_modules.embed.word_embeddings.weight")->stages, (std::vector<std::int64_t>{0, 1}));
  const TensorLayout* positions = bound.layout->Find("tied_modules.embed.position_embeddings.weight");
  EXPECT_THAT(*positions->stages, ElementsAre(0));
  EXPECT_THAT(positions->unused_stages, ElementsAre(1));
  EXPECT_EQ(bound.layout->Find("3.mlp.dense_h_to_4h.bias")->stages, std::nullopt);
  EXPECT_EQ(positions->declared_at.substr(0, 27), "megatron_deepspeed_gpt.ucp:");
}

TEST(BindSpecs, GptWithoutACheckpointExpandsFromDims) {
  Compiled gpt = Compile("megatron_deepspeed_gpt.ucp");
  Inventory nothing;
  nothing.mesh.axes = {{"pp", 2}, {"tp", 2}};
  Bound bound =
      Bind(*gpt.spec, nothing, {{"layers", 4}, {"hidden", 16}, {"heads", 4}, {"vocab", 65}, {"grain", 8}, {"seq", 12}});
  EXPECT_THAT(Messages(bound), ElementsAre());
  ASSERT_TRUE(bound.layout);
  EXPECT_EQ(bound.layout->tensors.size(), 52u);
  EXPECT_EQ(ToString(*bound.layout->Find("5.mlp.dense_4h_to_h.weight")),
            "5.mlp.dense_4h_to_h.weight [16, 64@tp] at pp=1");
}

TEST(BindSpecs, OneWrongShardOfManyIsNamed) {
  Compiled gpt = Compile("megatron_deepspeed_gpt.ucp");
  Checkpoint checkpoint = Gpt(1, 4);
  for (Shard& shard : checkpoint.inventory().storage.shards) {
    if (shard.tensor == "5.mlp.dense_h_to_4h.bias" && shard.coordinate.At("tp") == 3) shard.shape = {15};
  }
  Bound bound = Bind(*gpt.spec, checkpoint.inventory());
  EXPECT_THAT(Messages(bound), ElementsAre("`ffn@tp` is 16 on one rank, and `5.mlp.dense_h_to_4h.bias` has 15 there"));
}

TEST(BindSpecs, LlamaBindsAtTwoTensorRanks) {
  Compiled llama = Compile("megatron_deepspeed_llama.ucp");
  ASSERT_TRUE(llama.spec) << llama.messages;
  EXPECT_EQ(llama.messages, "");
  // 8 heads of 4, in 2 groups; 2 ranks: one group each, which is (4 queries + key + value) * 4 = 24 rows.
  Checkpoint checkpoint(1, 2);
  checkpoint.Fact("args.num_layers", 1).Fact("args.hidden_size", 32).Fact("args.num_attention_heads", 8);
  checkpoint.Fact("args.num_key_value_heads", 2).Fact("args.ffn_hidden_size", 48);
  checkpoint.Fact("info.original_vocab_size", 100);
  checkpoint.Tensor("1.word_embeddings.weight", {128, 32}, 0);
  checkpoint.Tensor("3.input_layernorm.weight", {32}, 0).Tensor("3.post_attention_layernorm.weight", {32}, 0);
  checkpoint.Tensor("3.self_attention.query_key_value.weight", {24, 32}, 0);
  checkpoint.Tensor("3.self_attention.dense.weight", {32, 16}, 0);
  checkpoint.Tensor("3.mlp.dense_h_to_4h.weight", {48, 32}, 0).Tensor("3.mlp.dense_4h_to_h.weight", {32, 24}, 0);
  checkpoint.Tensor("5.weight", {32}, 0).Tensor("6.lm_head.weight", {128, 32}, 0);
  Bound bound = Bind(*llama.spec, checkpoint.inventory());
  EXPECT_THAT(Messages(bound), ElementsAre());
  ASSERT_TRUE(bound.layout);
  auto held = HeldAt(*bound.layout->Find("3.mlp.dense_h_to_4h.weight"), bound.layout->mesh, Coordinate{{{"tp", 1}}});
  EXPECT_EQ(ToString(*held), "[24..48 72..96, 0..32]");
}

// Linear in names: a model of 20,000 tensors on 16 ranks, in one declaration and in one pass each.
TEST(BindSpecs, TwentyThousandTensors) {
  auto source = Source::FromText("big.ucp",
                                 "ucp 1\ndim layers dim experts mesh tp\n"
                                 "layout l { \"layers.{i: layers}.{e: experts}.{w1|w2}.weight\" [8@tp, 4] }\n");
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  auto spec = CheckSpec(*file, *source, sink);
  ASSERT_TRUE(spec);
  Checkpoint checkpoint(1, 2);
  for (int layer = 0; layer < 100; ++layer) {
    for (int expert = 0; expert < 100; ++expert) {
      std::string prefix = "layers." + std::to_string(layer) + "." + std::to_string(expert);
      checkpoint.Tensor(prefix + ".w1.weight", {4, 4}, 0).Tensor(prefix + ".w2.weight", {4, 4}, 0);
    }
  }
  Bound bound = Bind(*spec, checkpoint.inventory(), {{"layers", 100}, {"experts", 100}});
  EXPECT_THAT(Messages(bound), ElementsAre());
  ASSERT_TRUE(bound.layout);
  EXPECT_EQ(bound.layout->tensors.size(), 20000u);
}

}  // namespace
}  // namespace ucp
