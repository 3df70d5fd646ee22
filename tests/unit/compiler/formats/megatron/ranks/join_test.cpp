#include "compiler/formats/megatron/ranks/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Facts = std::map<std::string, Fact>;

LocalTensor Tensor(std::string name, std::vector<std::int64_t> sizes) {
  LocalTensor tensor{std::move(name), {}};
  tensor.place.elements = 1;
  for (const std::int64_t size : sizes) tensor.place.elements *= size;
  tensor.place.sizes = std::move(sizes);
  return tensor;
}

RankOfModel Rank(std::int64_t stage, std::int64_t tensor_rank, std::vector<std::vector<LocalTensor>> parts,
                 std::int64_t expert_rank = 0) {
  RankOfModel rank{{"mp_rank", stage, tensor_rank, expert_rank}, {}};
  for (std::vector<LocalTensor>& tensors : parts) rank.parts.push_back({std::move(tensors), {}, {}});
  return rank;
}

Facts Saying(std::int64_t stages) { return {{"args.pipeline_model_parallel_size", Fact{FactValue{stages}, "a.pt"}}}; }

std::string RefusalOf(const std::vector<RankOfModel>& ranks, std::int64_t stages) {
  const Facts facts = Saying(stages);
  auto model = JoinRanks(ranks, Arguments(facts));
  return model ? "" : TakeFailure(model.takeError()).message;
}

// Two stages, each of which has two parts of one layer.
TEST(JoinRanks, CountsLayersOverParts) {
  const std::string norm = "decoder.layers.0.input_layernorm.weight";
  const std::vector<RankOfModel> ranks = {Rank(0, 0, {{Tensor(norm, {4})}, {Tensor(norm, {4})}}),
                                          Rank(1, 0, {{Tensor(norm, {4})}, {Tensor(norm, {4})}})};
  const Facts facts = Saying(2);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  ASSERT_EQ(model.tensors.size(), 1u);
  EXPECT_EQ(model.tensors[0].entry.key, "decoder.layers.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_THAT(model.tensors[0].entry.shape, ElementsAre(4, 4));
  const auto layer_of = [&](std::size_t rank, std::size_t part) {
    for (const PlacedBox& box : model.tensors[0].boxes) {
      if (box.tensor == ranks[rank].parts[part].tensors.data()) return box.offsets[0];
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(layer_of(0, 0), 0);
  EXPECT_EQ(layer_of(1, 0), 1);
  EXPECT_EQ(layer_of(0, 1), 2);
  EXPECT_EQ(layer_of(1, 1), 3);
}

Facts Gated(bool is_gated) {
  Facts facts = Saying(2);
  facts["args.swiglu"] = Fact{FactValue{is_gated}, "a.pt"};
  return facts;
}

// A first stage that holds the embedding alone says nothing of gates.
TEST(JoinRanks, FindsGatesInAnyStage) {
  std::vector<RankOfModel> ranks;
  for (const std::int64_t rank : {0, 1}) {
    ranks.push_back(Rank(0, rank, {{Tensor("embedding.word_embeddings.weight", {4, 4})}}));
  }
  for (const std::int64_t rank : {0, 1}) {
    ranks.push_back(Rank(1, rank,
                         {{Tensor("decoder.layers.0.mlp.linear_fc1.weight", {6, 4}),
                           Tensor("decoder.layers.0.mlp.linear_fc2.weight", {4, 3})}}));
  }
  const Facts facts = Gated(true);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  std::vector<std::int64_t> rows;
  for (const PlacedBox& box : model.tensors[1].boxes) rows.push_back(box.offsets[1]);
  EXPECT_THAT(rows, ElementsAre(0, 6, 3, 9));
}

TEST(JoinRanks, RefusesGatesThatTheShapesDoNotShow) {
  const LocalTensor gate = Tensor("decoder.layers.0.mlp.linear_fc1.weight", {6, 4});
  const LocalTensor behind = Tensor("decoder.layers.0.mlp.linear_fc2.weight", {4, 6});
  const Facts facts = Gated(true);
  const auto refusal_of = [&](std::vector<LocalTensor> last) {
    const std::vector ranks = {Rank(0, 0, {{Tensor("embedding.word_embeddings.weight", {4, 4})}}),
                               Rank(1, 0, {std::move(last)})};
    auto model = JoinRanks(ranks, Arguments(facts));
    return model ? "" : TakeFailure(model.takeError()).message;
  };
  EXPECT_THAT(refusal_of({gate, behind}), HasSubstr("with `decoder.layers.0.mlp.linear_fc2.weight` of [4, 6] in"));
  EXPECT_THAT(refusal_of({gate}), HasSubstr("with no matrix `mlp.linear_fc2.weight` in"));
}

// Two stages of one layer, which count it from 0. The head's is not saved by Megatron Core.
TEST(JoinRanks, KeepsExtraStates) {
  std::vector<RankOfModel> ranks;
  for (const std::int64_t stage : {0, 1}) {
    for (const std::int64_t rank : {0, 1}) {
      ranks.push_back(Rank(stage, rank, {{Tensor("decoder.layers.0.mlp.linear_fc2.bias", {4})}}));
      ranks.back().parts[0].extras.push_back(
          {pytorch::MakeText("decoder.layers.0.mlp.linear_fc2._extra_state"), pytorch::MakeInteger(10 * stage + rank)});
    }
  }
  for (const char* name : {"decoder.final_layernorm._extra_state", "output_layer._extra_state"}) {
    ranks[2].parts[0].extras.push_back({pytorch::MakeText(name), pytorch::MakeInteger(20)});
  }
  const Facts facts = Saying(2);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  std::map<std::string, std::int64_t> found;
  for (const pytorch::Entry& extra : model.extras) {
    found[std::string(*pytorch::AsText(*extra.key))] = *pytorch::AsInteger(*extra.value);
  }
  EXPECT_EQ(model.extras.size(), 3u);
  EXPECT_EQ(found, (std::map<std::string, std::int64_t>{
                       {"decoder.final_layernorm._extra_state/shard_0_1", 20},
                       {"decoder.layers.mlp.linear_fc2._extra_state/shard_0_2", 0},
                       {"decoder.layers.mlp.linear_fc2._extra_state/shard_1_2", 10},
                   }));
}

// Each of two ranks has half of the gate and half of the up half.
TEST(JoinRanks, PutsHalvesTogether) {
  std::vector<RankOfModel> ranks;
  for (const std::int64_t rank : {0, 1}) {
    ranks.push_back(Rank(0, rank,
                         {{Tensor("decoder.layers.0.mlp.linear_fc1.weight", {6, 4}),
                           Tensor("decoder.layers.0.mlp.linear_fc2.weight", {4, 3})}}));
  }
  const Facts facts = Saying(1);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  EXPECT_THAT(model.tensors[0].entry.shape, ElementsAre(1, 12, 4));
  EXPECT_THAT(model.tensors[1].entry.shape, ElementsAre(1, 4, 6));
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> begins;
  for (const PlacedBox& box : model.tensors[0].boxes) {
    rows.push_back(box.offsets[1]);
    begins.push_back(box.begin);
  }
  EXPECT_THAT(rows, ElementsAre(0, 6, 3, 9));
  EXPECT_THAT(begins, ElementsAre(0, 12, 0, 12));
}

Facts OfExperts(std::int64_t experts) {
  Facts facts = Saying(1);
  facts["args.num_experts"] = Fact{FactValue{experts}, "a.pt"};
  facts["args.transformer_impl"] = Fact{FactValue{std::string("local")}, "a.pt"};
  return facts;
}

// Of two expert-parallel ranks each has two of four experts, and counts them from 0.
TEST(JoinRanks, CountsExpertsOverRanks) {
  const std::string before = "decoder.layers.0.mlp.experts.";
  const LocalTensor norm = Tensor("decoder.layers.0.pre_mlp_layernorm.weight", {4});
  for (const bool are_grouped : {false, true}) {
    std::vector<RankOfModel> ranks;
    for (const std::int64_t rank : {0, 1}) {
      std::vector<LocalTensor> tensors = {norm};
      for (const std::int64_t expert : {0, 1}) {
        const auto name = [&](const std::string& linear) {
          return are_grouped ? before + linear + ".weight" + std::to_string(expert)
                             : before + "local_experts." + std::to_string(expert) + "." + linear + ".weight";
        };
        tensors.push_back(Tensor(name("linear_fc1"), {6, 4}));
        tensors.push_back(Tensor(name("linear_fc2"), {4, 3}));
      }
      ranks.push_back(Rank(0, 0, {std::move(tensors)}, rank));
    }
    const Facts facts = OfExperts(4);
    const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
    ASSERT_EQ(model.tensors.size(), 3u);
    EXPECT_EQ(model.tensors[0].entry.key, "decoder.layers.mlp.linear_fc1.layer_norm_weight");
    EXPECT_EQ(model.tensors[0].boxes.size(), 2u);
    EXPECT_EQ(model.tensors[1].entry.key, "decoder.layers.mlp.experts.experts.linear_fc1.weight");
    EXPECT_THAT(model.tensors[1].entry.shape, ElementsAre(1, 4, 6, 4));
    std::vector<std::int64_t> experts;
    for (const PlacedBox& box : model.tensors[1].boxes) experts.push_back(box.offsets[1]);
    EXPECT_THAT(experts, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));  // A gate and an up half each.
  }
}

// [hidden, experts * rows] by its shape, and [experts, hidden, rows] in memory.
TEST(JoinRanks, TakesMatricesOfAllExperts) {
  const std::vector<RankOfModel> ranks = {Rank(0, 0,
                                               {{Tensor("decoder.layers.0.mlp.experts.weight1", {4, 12}),
                                                 Tensor("decoder.layers.0.mlp.experts.weight2", {6, 4})}})};
  const Facts facts = OfExperts(2);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_THAT(model.tensors[0].entry.shape, ElementsAre(1, 2, 6, 4));
  EXPECT_THAT(model.tensors[1].entry.shape, ElementsAre(1, 2, 4, 3));
  std::vector<std::int64_t> begins;
  for (const PlacedBox& box : model.tensors[0].boxes) begins.push_back(box.begin);
  EXPECT_THAT(begins, ElementsAre(0, 3, 24, 27));
  EXPECT_THAT(model.tensors[0].boxes[0].strides, ElementsAre(1, 6));
  EXPECT_THAT(model.tensors[1].boxes[1].strides, ElementsAre(1, 4));
  EXPECT_EQ(model.tensors[1].boxes[1].begin, 12);
}

std::string RefusalOfExperts(const std::vector<LocalTensor>& tensors, std::int64_t experts) {
  const Facts facts = OfExperts(experts);
  const std::vector<RankOfModel> ranks = {Rank(0, 0, {tensors})};
  auto model = JoinRanks(ranks, Arguments(facts));
  return model ? "" : TakeFailure(model.takeError()).message;
}

TEST(JoinRanks, NeedsEachExpert) {
  const auto expert = [](const char* number) {
    return Tensor(std::string("decoder.layers.0.mlp.experts.local_experts.") + number + ".linear_fc2.bias", {4});
  };
  EXPECT_THAT(RefusalOfExperts({expert("1")}, 2), HasSubstr("of tensor-parallel rank 0, with expert 0, and"));
  EXPECT_THAT(RefusalOfExperts({expert("2")}, 2), HasSubstr("a rank has 2 of the 2 experts that the arguments say"));
  EXPECT_THAT(RefusalOfExperts({expert("9223372036854775807")}, 2), HasSubstr("a rank has 2 of the 2 experts"));
  EXPECT_THAT(RefusalOfExperts({Tensor("decoder.layers.0.mlp.experts.experts.linear_fc2.bias", {2, 4})}, 2),
              HasSubstr("it is not known how ranks share that"));
  EXPECT_THAT(RefusalOfExperts({Tensor("decoder.layers.0.mlp.experts.weight1", {0, 2})}, 2),
              HasSubstr("`decoder.layers.0.mlp.experts.weight1` has the shape [0, 2], which the 2 experts of a rank"));
  EXPECT_THAT(RefusalOfExperts({Tensor("decoder.layers.0.mlp.experts.weight1", {4, 7})}, 2),
              HasSubstr("`decoder.layers.0.mlp.experts.weight1` has the shape [4, 7], which the 2 experts of a rank "
                        "cannot share"));
  const LocalTensor norm = Tensor("decoder.layers.0.self_attention.linear_proj.bias", {4});
  const Facts facts = OfExperts(2);
  const std::vector<RankOfModel> ranks = {Rank(0, 0, {{norm}}),
                                          Rank(0, 0, {{Tensor("decoder.layers.0.mlp.linear_fc2.bias", {4})}}, 1)};
  auto model = JoinRanks(ranks, Arguments(facts));
  ASSERT_FALSE(model);
  EXPECT_THAT(TakeFailure(model.takeError()).message,
              HasSubstr("of tensor-parallel rank 0, expert-parallel rank 1, and"));
}

// Layers of which only some have experts keep their numbers, over stages.
TEST(JoinRanks, NumbersLayersThatDiffer) {
  Facts facts = OfExperts(1);
  facts["args.pipeline_model_parallel_size"] = Fact{FactValue{std::int64_t{2}}, "a.pt"};
  facts["args.moe_layer_freq"] = Fact{FactValue{std::vector<FactValue>{{std::int64_t{0}}, {std::int64_t{1}}}}, "a.pt"};
  const std::vector<RankOfModel> ranks = {
      Rank(0, 0, {{Tensor("decoder.layers.0.mlp.linear_fc2.bias", {4})}}),
      Rank(1, 0, {{Tensor("decoder.layers.0.mlp.experts.local_experts.0.linear_fc2.bias", {4})}})};
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(model.tensors[0].entry.key, "decoder.layers.0.mlp.linear_fc2.bias");
  EXPECT_THAT(model.tensors[0].entry.shape, ElementsAre(4));
  EXPECT_EQ(model.tensors[1].entry.key, "decoder.layers.1.mlp.experts.experts.linear_fc2.bias");
  EXPECT_THAT(model.tensors[1].entry.shape, ElementsAre(1, 4));
  facts["args.num_layers"] = Fact{FactValue{std::int64_t{3}}, "a.pt"};
  auto other = JoinRanks(ranks, Arguments(facts));
  ASSERT_FALSE(other);
  EXPECT_THAT(TakeFailure(other.takeError()).message, HasSubstr("`args.num_layers` is 3, and the ranks have 2 layers"));
}

// Experts one by one have an extra state each; grouped ones have one for all, of which the loader asks for each part.
TEST(JoinRanks, KeepsExtraStatesOfExperts) {
  const std::string before = "decoder.layers.0.mlp.experts.";
  std::vector<RankOfModel> ranks;
  for (const std::int64_t rank : {0, 1}) {
    ranks.push_back(
        Rank(0, 0,
             {{Tensor(before + "local_experts.0.linear_fc2.bias", {4}), Tensor(before + "linear_fc1.weight0", {3, 4})}},
             rank));
    ranks.back().parts[0].extras = {
        {pytorch::MakeText(before + "local_experts.0.linear_fc2._extra_state"), pytorch::MakeInteger(rank)},
        {pytorch::MakeText(before + "linear_fc1._extra_state"), pytorch::MakeInteger(5)},
        {pytorch::MakeText(before + "linear_fc7._extra_state"), pytorch::MakeInteger(5)}};  // Of no weight.
  }
  const Facts facts = OfExperts(2);
  const WholeModel model = llvm::cantFail(JoinRanks(ranks, Arguments(facts)));
  std::map<std::string, std::string> found;
  for (const pytorch::Entry& extra : model.extras) {
    found[std::string(*pytorch::AsText(*extra.key))] = pytorch::Print(*extra.value);
  }
  EXPECT_EQ(found, (std::map<std::string, std::string>{
                       {"decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_0.0_1.2", "None"},
                       {"decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_0.1_1.2", "None"},
                       {"decoder.layers.mlp.experts.experts.linear_fc2._extra_state/shard_0.0_1.2", "0"},
                       {"decoder.layers.mlp.experts.experts.linear_fc2._extra_state/shard_0.1_1.2", "1"},
                   }));
  EXPECT_TRUE(model.lacks_extras);
}

TEST(JoinRanks, NeedsEachLayerOfEachRank) {
  const LocalTensor norm = Tensor("decoder.layers.0.self_attention.linear_proj.bias", {4});
  const LocalTensor other = Tensor("decoder.layers.1.mlp.linear_fc2.bias", {4});
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{norm, other}})}, 1), HasSubstr("is not in layer"));
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{norm}}), Rank(0, 1, {{norm, other}})}, 1),
              HasSubstr("tensor-parallel rank 0 of its stage has 1 layers"));
  const LocalTensor far = Tensor("decoder.layers.4611686018427387904.mlp.linear_fc2.bias", {4});
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{far}})}, 1), HasSubstr("has 2 layers"));
  const LocalTensor farthest = Tensor("decoder.layers.9223372036854775807.mlp.linear_fc2.bias", {4});
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{farthest}})}, 1), HasSubstr("has 2 layers"));
  RankOfModel rank = Rank(0, 0, {{norm}});
  rank.parts[0].extras = {
      {pytorch::MakeText("decoder.layers.9223372036854775807.mlp.linear_fc2._extra_state"), pytorch::MakeNone()}};
  EXPECT_THAT(RefusalOf({rank}, 1), HasSubstr("_extra_state` is in `mp_rank/model_optim_rng.pt`, and tensor-parallel "
                                              "rank 0 of its stage has 1 layers"));
}

TEST(JoinRanks, RefusesShapesThatRanksCannotShare) {
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{Tensor("decoder.layers.0.self_attention.linear_proj.weight", {4})}})}, 1),
              HasSubstr("has the shape [4], which 1 tensor-parallel ranks cannot share"));
  EXPECT_THAT(RefusalOf({Rank(0, 0, {{Tensor("embedding.word_embeddings.weight", {std::int64_t{1} << 62})}}),
                         Rank(0, 2, {{Tensor("embedding.word_embeddings.weight", {std::int64_t{1} << 62})}})},
                        1),
              HasSubstr("3 tensor-parallel ranks cannot share"));
}

}  // namespace
}  // namespace ucp::megatron
