// Experts that AutoEP spreads. That the elements are those of the engine is for describe_test.cpp; that any placement
// is the same model, for tests/engine/test_autoep.py. Here: what contradicts itself is refused, with both sides.
#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::deepspeed {
namespace {

using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using testing::CheckpointCopy;
using ::testing::ElementsAre;
using testing::ExpectFailure;
using ::testing::Pair;

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kTensor = "model.layers.1.mlp.experts.w1";

pytorch::ValuePtr List(const std::vector<std::int64_t>& numbers) {
  std::vector<pytorch::ValuePtr> items;
  for (std::int64_t number : numbers) items.push_back(MakeInteger(number));
  return MakeList(std::move(items));
}

// Without its maps, which would have to be changed too.
void Place(CheckpointCopy& copy, const std::string& rank, const std::vector<std::int64_t>& experts) {
  copy.Set(kModel, {"ds_autoep_layers", "0", "affine_maps"}, nullptr);
  copy.Set(kModel, {"ds_autoep_layers", "0", "expert_placement", "ranks", rank, "experts"}, List(experts));
}

TEST(FusedExperts, AreAtTheirPlaceOnTheMesh) {
  for (const char* fixture : {"autoep_ep2_dp4", "autoep_ep2_dp4_data_first", "autoep_ep2_dp4_zero3"}) {
    const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture));
    const Inventory& inventory = checkpoint.inventory;
    EXPECT_EQ(ToString(inventory.mesh), "pp=1 dp=4 tp=1 edp=2 ep=2");
    EXPECT_EQ(inventory.expert_places.size(), 6u);
    EXPECT_THAT(inventory.expert_places.at(kTensor), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
    EXPECT_TRUE(StateOf(checkpoint.training).fused_experts.contains(kTensor));
    for (const Shard& shard : inventory.storage.shards) {
      if (shard.tensor != kTensor) continue;
      EXPECT_THAT(shard.shape, ElementsAre(2, 6, 16));
    }
    auto layout = WholeLayout(inventory);
    ASSERT_TRUE(static_cast<bool>(layout));
    EXPECT_EQ(ToString(*layout->Find(kTensor)), kTensor + " [4@ep, 6, 16]");
  }
}

// Each stage of a pipeline has layers of its own, which it counts from 0.
TEST(FusedExperts, OfAPipelineAreOnTheirStage) {
  struct Expected {
    const char* fixture;
    const char* mesh;
  };
  for (const auto& [fixture, mesh] : {Expected{"autoep_pp2_ep2_dp4", "pp=2 dp=4 tp=1 edp=2 ep=2"},
                                      Expected{"autoep_pp2_ep2_dp2_zero0", "pp=2 dp=1 tp=1 edp=1 ep=2"}}) {
    const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture));
    EXPECT_EQ(ToString(checkpoint.inventory.mesh), mesh);
    std::map<std::string, std::set<std::pair<std::int64_t, std::int64_t>>> places;  // Stage and expert rank.
    for (const Shard& shard : checkpoint.inventory.storage.shards) {
      if (!StateOf(checkpoint.training).fused_experts.contains(shard.tensor)) continue;
      EXPECT_EQ(shard.shape.front(), 2);
      EXPECT_EQ(shard.kind, TensorKind::kParameter);
      places[shard.tensor].emplace(shard.coordinate.At("pp"), shard.coordinate.At("ep"));
    }
    EXPECT_EQ(places.size(), 9u);
    for (const auto& [layer, stage] : {std::pair("2", 0), std::pair("4", 1), std::pair("5", 1)}) {
      EXPECT_THAT(places[fmt::format("{}.mlp.experts.w2", layer)], ElementsAre(Pair(stage, 0), Pair(stage, 1)));
    }
    EXPECT_THAT(
        StateOf(checkpoint.training).expert_layers,
        ElementsAre(ExpertLayer{"2.mlp.experts", 4}, ExpertLayer{"4.mlp.experts", 4}, ExpertLayer{"5.mlp.experts", 4}));
    ASSERT_TRUE(StateOf(checkpoint.training).pipeline);
    EXPECT_EQ(StateOf(checkpoint.training).pipeline->stage_count, 2);
    EXPECT_THAT(StateOf(checkpoint.training).pipeline->stages.at("5."), ElementsAre(1));
  }
}

TEST(FusedExperts, StagesThatContradictThemselvesOrEachOther) {
  const std::string second = "mp_rank_01_model_states.pt";
  for (const char* fixture : {"autoep_pp2_ep2_dp4", "autoep_pp2_ep2_dp2_zero0"}) {
    {
      CheckpointCopy copy(fixture);
      copy.Remove("layer_1_expert_2_mp_rank_01_model_states.pt");
      ExpectFailure(copy, ErrorCode::kBadData,
                    {"`layer_1_expert_2_mp_rank_01_model_states.pt` is missing; `5.mlp.experts` has 4 experts, as "
                     "`ds_autoep_layers` in `" +
                     second + "` says"});
    }
    {
      CheckpointCopy copy(fixture);
      copy.Copy("layer_1_expert_2_mp_rank_01_model_states.pt", "layer_1_expert_2_mp_rank_00_model_states.pt");
      ExpectFailure(copy, ErrorCode::kBadData,
                    {"there is `layer_1_expert_2_mp_rank_00_model_states.pt`, and `ds_autoep_layers` in `" + kModel});
    }
  }
  for (const char* fixture : {"autoep_pp2_ep2_dp4", "autoep_pp2_ep2_dp2_zero0"}) {
    CheckpointCopy copy(fixture);
    copy.Set(second, {"ds_autoep_layers"}, pytorch::MakeNone());
    ExpectFailure(copy, ErrorCode::kBadData,
                  {"`" + kModel + "` has layers whose experts AutoEP spreads", "`" + second + "` has none"});
  }
  CheckpointCopy copy("autoep_pp2_ep2_dp2_zero0");
  copy.Set(second, {"ds_autoep_layers", "0", "affine_maps"}, nullptr);
  copy.Set(second, {"ds_autoep_layers", "0", "expert_key_prefix"}, pytorch::MakeText("2.mlp.experts"));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`ds_autoep_layers` has `2.mlp.experts` in `" + kModel + "` and in `" + second + "`"});
}

TEST(FusedExperts, FileThatIsMissing) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Remove("layer_1_expert_2_mp_rank_00_model_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"`layer_1_expert_2_mp_rank_00_model_states.pt` is missing; `model.layers.2.mlp.experts` has 4 experts"});
}

TEST(FusedExperts, FileThatNobodyCounts) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Copy("layer_1_expert_2_mp_rank_00_model_states.pt", "layer_1_expert_4_mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"there is `layer_1_expert_4_mp_rank_00_model_states.pt`", "has no such expert"});
}

TEST(FusedExperts, FilesOfRanksThatAreNotThere) {
  const std::string file = "layer_1_expert_2_mp_rank_01_model_states.pt";
  CheckpointCopy copy("autoep_pp2_ep2_dp4");
  copy.Copy(file, "layer_1_expert_2_mp_rank_99_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"there is `layer_1_expert_2_mp_rank_99_model_states.pt`, and only 2 model-parallel ranks"});
  copy.Rename("layer_1_expert_2_mp_rank_99_model_states.pt", "layer_1_expert_2_mp_rank_9999999999_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`layer_1_expert_2_mp_rank_9999999999_model_states.pt` has a number of ten digits or more"});
}

// DeepSpeed would load the modules of the model-states files, and leave it alone.
TEST(FusedExperts, LayerFileBesideThem) {
  CheckpointCopy copy("autoep_pp2_ep2_dp4");
  copy.Copy("layer_1_expert_2_mp_rank_01_model_states.pt", "layer_01-model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"there is `layer_01-model_states.pt`, and `" + kModel + "` has the module of its rank itself"});
}

TEST(FusedExperts, FileOfAnotherExpert) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Remove("layer_1_expert_2_mp_rank_00_model_states.pt");
  copy.Copy("layer_1_expert_3_mp_rank_00_model_states.pt", "layer_1_expert_2_mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"holds `model.layers.2.mlp.experts.w1.3`, which is not a tensor of expert 2"});
}

TEST(FusedExperts, TensorThatIsMissing) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Set("layer_0_expert_3_mp_rank_00_model_states.pt", {kTensor + ".3"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"has no tensor `" + kTensor + ".3`"});
}

TEST(FusedExperts, PlacementsThatAreNone) {
  struct Wrong {
    std::vector<std::int64_t> experts;
    std::string words;
  };
  for (const auto& [experts, words] :
       {Wrong{{2, 0}, "places expert 3 on no rank"}, Wrong{{2, 2}, "places expert 2 twice on rank 1"},
        Wrong{{2, 4}, "places expert 4 on rank 1, and there are 4"}}) {
    CheckpointCopy copy("autoep_ep2_dp4");
    Place(copy, "1", experts);
    ExpectFailure(copy, ErrorCode::kBadData, {"`ds_autoep_layers` in `" + kModel + "`", words});
  }
  CheckpointCopy copy("autoep_ep2_dp4");
  Place(copy, "0", {0, 1, 2});
  ExpectFailure(copy, ErrorCode::kBadData, {"says that expert rank 0 has 2 experts, and its placement 3"});
}

TEST(FusedExperts, PlacementAgainstItsMap) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Set(kModel, {"ds_autoep_layers", "0", "expert_placement", "ranks", "0", "experts"}, List({1, 0}));
  ExpectFailure(copy, ErrorCode::kBadData, {"places experts otherwise than its affine map for `" + kTensor + "`"});
}

// The same numbers, once more: in the maps, in the rank's own range, in the shapes.
TEST(FusedExperts, NumbersAgainstEachOther) {
  {
    CheckpointCopy copy("autoep_ep2_dp4");
    copy.Set(kModel, {"ds_autoep_layers", "0", "affine_maps", "params", kTensor, "logical_shape"}, List({5, 6, 16}));
    ExpectFailure(copy, ErrorCode::kBadData, {"has 4 experts, and 5 in its affine map for `" + kTensor + "`"});
  }
  for (const auto& [key, words] :
       {std::pair("global_expert_start",
                  "has 1 as `global_expert_start`, and expert rank 0 with 2 experts has 0 there"),
        std::pair("global_expert_end", "has 1 as `global_expert_end`, and expert rank 0 with 2 experts has 2 there")}) {
    CheckpointCopy copy("autoep_ep2_dp4");
    copy.Set(kModel, {"ds_autoep_layers", "0", key}, MakeInteger(1));
    ExpectFailure(copy, ErrorCode::kBadData, {"`ds_autoep_layers` in `" + kModel + "`", words});
  }
  {
    CheckpointCopy copy("autoep_ep2_dp4");
    copy.Edit(kModel, [](const pytorch::ValuePtr& root) {
      const std::vector<std::string> maps = {"ds_autoep_layers", "0", "affine_maps", "params", kTensor};
      const pytorch::ValuePtr layer = pytorch::Items(*pytorch::Find(*root, maps[0]))->front();
      const pytorch::ValuePtr params = pytorch::Find(*pytorch::Find(*layer, maps[2]), maps[3]);
      return testing::Replaced(root, maps, pytorch::Find(*params, "model.layers.1.mlp.experts.w2"));
    });
    ExpectFailure(copy, ErrorCode::kBadData,
                  {"an expert of `" + kTensor + "` has the shape [6, 16], and by its affine map in `" + kModel + "`",
                   "it has [16, 6]"});
  }
}

TEST(FusedExperts, VersionThatIsNotKnown) {
  for (const char* entry : {"expert_placement", "affine_maps"}) {
    CheckpointCopy copy("autoep_ep2_dp4");
    copy.Set(kModel, {"ds_autoep_layers", "0", entry, "version"}, MakeInteger(2));
    ExpectFailure(copy, ErrorCode::kUnsupported, {"is of version 2, and this program reads version 1"});
  }
}

TEST(FusedExperts, WithoutAPlacementNeighboursAreTogether) {
  CheckpointCopy copy("autoep_ep2_dp4");
  for (const char* layer : {"0", "1"}) {
    copy.Set(kModel, {"ds_autoep_layers", layer, "expert_placement"}, nullptr);
    copy.Set(kModel, {"ds_autoep_layers", layer, "affine_maps"}, nullptr);
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint));
  EXPECT_THAT(checkpoint->inventory.expert_places.at(kTensor), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  copy.Set(kModel, {"ds_autoep_layers", "1", "num_local_experts"}, MakeInteger(3));
  ExpectFailure(copy, ErrorCode::kBadData, {"has 4 experts, and 3 on each of 2 ranks"});
}

TEST(FusedExperts, DegreesThatDiffer) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Set(kModel, {"ds_autoep_layers", "1", "expert_placement"}, nullptr);
  copy.Set(kModel, {"ds_autoep_layers", "1", "affine_maps"}, nullptr);
  copy.Set(kModel, {"ds_autoep_layers", "1", "ep_size"}, MakeInteger(4));
  copy.Set(kModel, {"ds_autoep_layers", "1", "num_local_experts"}, MakeInteger(1));
  copy.Set(kModel, {"ds_autoep_layers", "1", "global_expert_end"}, MakeInteger(1));
  ExpectFailure(copy, ErrorCode::kUnsupported, {"spreads experts over 2 ranks in one layer and over 4 in another"});
}

TEST(FusedExperts, ARankThatIsNoNumberIsNotTakenForNone) {
  CheckpointCopy copy("autoep_ep2_dp4");
  copy.Set(kModel, {"ds_autoep_layers", "0", "ep_rank"}, MakeText("2"));
  ExpectFailure(copy, ErrorCode::kBadData, {"has '2' as `ep_rank`, and not a number from 0"});
}

TEST(FusedExperts, ListedTwice) {
  CheckpointCopy copy("autoep_pp2_ep2_dp4");
  copy.Set("mp_rank_00_model_states.pt", {"frozen_param_shapes"},
           MakeDict({{MakeText("2.mlp.experts.w1"), List({2, 6, 16})}}));
  ExpectFailure(copy, ErrorCode::kBadData, {"`2.mlp.experts.w1` stands twice in the lists of shapes in `"});
}

// At stage 3 each partition speaks for its own expert rank.
TEST(FusedExperts, PartitionOfAnotherExpertRank) {
  const std::string file = "zero_pp_rank_2_mp_rank_00_model_states.pt";
  CheckpointCopy copy("autoep_ep2_dp4_zero3");
  copy.Set(file, {"ds_autoep_layers", "0", "ep_rank"}, MakeInteger(1));
  ExpectFailure(copy, ErrorCode::kBadData, {"has 0 as `global_expert_start`, and expert rank 1 with 2 experts has 2"});
  for (const char* key : {"global_expert_start", "global_expert_end"}) {
    copy.Set(file, {"ds_autoep_layers", "0", key}, nullptr);
  }
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`" + file + "`: `ep_rank`", "is 1, and partition 2 of 4 is of expert rank 0"});
}

TEST(FusedExperts, PartitionsThatShareAnotherSubGroup) {
  CheckpointCopy copy("autoep_ep2_dp4_zero3");
  const std::string file = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
  copy.Set(file, {"optimizer_state_dict", "ds_zero_partition_groups", "0", "partition_ranks"}, List({1, 3}));
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"sub-group 0 is cut over the ranks 1, 3, as `ds_zero_partition_groups` in `" + file + "`", "over 0, 1, 2, 3"});
}

TEST(FusedExperts, OptimizersWithoutZero) {
  const std::string second = "expp_rank_1_mp_rank_00_optim_states.pt";
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot("autoep_zero0_fp32"));
  EXPECT_EQ(ToString(checkpoint.inventory.mesh), "pp=1 dp=1 tp=1 edp=1 ep=2");
  EXPECT_TRUE(StateOf(checkpoint.training).fused_experts.contains(kTensor));
  {
    CheckpointCopy copy("autoep_zero0_fp32");
    copy.Copy(second, "expp_rank_2_mp_rank_00_optim_states.pt");
    ExpectFailure(copy, ErrorCode::kBadData,
                  {"there is `expp_rank_2_mp_rank_00_optim_states.pt`, and the experts are shared out over 2 ranks"});
    copy.Remove("expp_rank_2_mp_rank_00_optim_states.pt");
    copy.Remove(second);
    ExpectFailure(copy, ErrorCode::kBadData, {"`" + second + "` is missing"});
  }
  {
    CheckpointCopy copy("autoep_zero0_fp32");
    copy.Remove("layer_0_expert_0_mp_rank_00_model_states.pt");
    ExpectFailure(copy, ErrorCode::kBadData, {"`layer_0_expert_0_mp_rank_00_model_states.pt` is missing"});
  }
  {
    CheckpointCopy copy("autoep_zero0_fp32");
    copy.Set("layer_0_expert_0_mp_rank_00_model_states.pt", {kTensor + ".0"}, nullptr);
    ExpectFailure(copy, ErrorCode::kUnsupported, {"does not say which parameter is which", "the module"});
  }
  {
    CheckpointCopy copy("autoep_zero0_fp32");
    for (int expert = 0; expert < 4; ++expert) {
      for (const char* matrix : {"w3", "w2", "w1"}) {
        copy.Set(fmt::format("layer_1_expert_{}_mp_rank_00_model_states.pt", expert),
                 {fmt::format("model.layers.2.mlp.experts.{}.{}", matrix, expert)}, nullptr);
      }
    }
    ExpectFailure(copy, ErrorCode::kBadData, {"has `model.layers.2.mlp.experts`, and no file of its experts has one"});
  }
  {
    CheckpointCopy copy("autoep_zero0_fp32");
    copy.Set(second, {"optimizer", "param_groups", "2", "lr"}, pytorch::MakeDouble(0.5));
    ExpectFailure(copy, ErrorCode::kBadData, {"`param_groups` of group 2 is", second});
  }
}

}  // namespace
}  // namespace ucp::deepspeed
