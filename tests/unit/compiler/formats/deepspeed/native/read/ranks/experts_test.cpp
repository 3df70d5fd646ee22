// Experts that are spread over ranks. That the elements are those of the engine is for describe_test.cpp, over all
// fixtures.
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/format.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::deepspeed {
namespace {

using testing::CheckpointCopy;
using testing::ExpectFailure;
using ::testing::HasSubstr;

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kLayer = "blocks.1.moe.deepspeed_moe.experts.deepspeed_experts.";

std::string ZeroFile(int partition) {
  return fmt::format("bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", partition);
}

TEST(Experts, AreAtTheirPlaceOnTheMesh) {
  for (const char* fixture : {"moe_ep2_dp4", "moe_ep2_dp4_data_first"}) {
    const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture));
    EXPECT_EQ(ToString(checkpoint.inventory.mesh), "pp=1 dp=4 tp=1 edp=2 ep=2");
    std::map<std::string, std::set<std::int64_t>> places;
    for (const Shard& shard : checkpoint.inventory.storage.shards) {
      places[shard.tensor].insert(shard.coordinate.At("ep"));
    }
    EXPECT_EQ(places.at(kLayer + "1.up.weight"), std::set<std::int64_t>{0});
    EXPECT_EQ(places.at(kLayer + "2.up.weight"), std::set<std::int64_t>{1});
    EXPECT_EQ(places.at("embed.weight"), std::set<std::int64_t>{0});
    // The optimizer's groups list the experts as one rank with all of them does: layer after layer.
    const auto& names = checkpoint.training.groups.at(3).parameters;
    EXPECT_EQ(names.size(), 16u);
    EXPECT_EQ(names[0], kLayer + "0.up.bias");
    EXPECT_EQ(names[4], kLayer + "2.up.bias");
    EXPECT_THAT(names[8], HasSubstr("blocks.3."));
    EXPECT_THAT(StateOf(checkpoint.training).expert_layers,
                ::testing::ElementsAre(ExpertLayer{kLayer, 4},
                                       ExpertLayer{"blocks.3.moe.deepspeed_moe.experts.deepspeed_experts.", 4}));
  }
}

TEST(Experts, LayersOfDifferentDegrees) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot("moe_ep2_ep4_dp4"));
  EXPECT_EQ(ToString(checkpoint.inventory.mesh), "pp=1 dp=4 tp=1 edp=1 ep=4");
  std::map<std::string, std::size_t> cut_over;
  for (const Shard& shard : checkpoint.inventory.storage.shards) {
    const Storage& storage = checkpoint.inventory.storage;
    const StateBuffer& state = storage.buffer_set(shard.states).front();
    if (state.state != kWeightState) cut_over[shard.tensor] = storage.buffer(state.buffer).parts.size();
  }
  EXPECT_EQ(cut_over.at(kLayer + "3.up.weight"), 2u);
  EXPECT_EQ(cut_over.at("blocks.3.moe.deepspeed_moe.experts.deepspeed_experts.3.up.weight"), 1u);
  EXPECT_EQ(cut_over.at("embed.weight"), 4u);
}

// Also whole experts that tensor-parallel ranks share out: rank r of the stage has expert r mod 4.
TEST(Experts, WholeOnesAreOnNoTensorRank) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot("moe_tp2_ep4_dp4_whole"));
  EXPECT_EQ(ToString(checkpoint.inventory.mesh), "pp=1 dp=4 tp=2 edp=2 ep=4");
  const Storage& storage = checkpoint.inventory.storage;
  std::set<std::string> files;
  for (const Shard& shard : storage.shards) {
    EXPECT_EQ(shard.coordinate.at.contains("tp"), !IsExpertName(shard.tensor)) << shard.tensor;
    if (shard.tensor != kLayer + "3.up.weight") continue;
    EXPECT_EQ(shard.coordinate.At("ep"), 3);
    for (const BufferPart& part : storage.buffer(storage.buffer_set(shard.states).front().buffer).parts) {
      files.insert(storage.files[storage.record(part.record).file.index()].path);
    }
  }
  EXPECT_THAT(files, ::testing::ElementsAre("bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt",
                                            "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt",
                                            "layer_0_expert_3_mp_rank_01_model_states.pt"));
}

TEST(Experts, WholeOnesWithoutAFile) {
  CheckpointCopy copy("moe_tp2_ep4_dp4_whole");
  copy.Remove("layer_1_expert_2_mp_rank_00_model_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"`layer_1_expert_2_mp_rank_00_model_states.pt` is missing, and so are those of the other tensor-parallel "
       "ranks; layer 1 has 4 experts"});
}

TEST(Experts, FileThatIsMissing) {
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Remove("layer_1_expert_2_mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`layer_1_expert_2_mp_rank_00_model_states.pt` is missing; layer 1 has 4 experts, as `num_experts` in "
                 "`mp_rank_00_model_states.pt` says"});
}

TEST(Experts, FileThatNobodyCounts) {
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Copy("layer_1_expert_2_mp_rank_00_model_states.pt", "layer_2_expert_0_mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"there is `layer_2_expert_0_mp_rank_00_model_states.pt`, and `num_experts` of that rank is [4, 4]"});
}

TEST(Experts, FileOfAnotherExpert) {
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Remove("layer_1_expert_2_mp_rank_00_model_states.pt");
  copy.Copy("layer_1_expert_3_mp_rank_00_model_states.pt", "layer_1_expert_2_mp_rank_00_model_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"`layer_1_expert_2_mp_rank_00_model_states.pt` holds `blocks.3.moe", "which is not a tensor of expert 2"});
}

TEST(Experts, TensorThatIsMissing) {
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Set("layer_0_expert_3_mp_rank_00_model_states.pt", {kLayer + "3.down.bias"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData,
                {"no file has the tensor `" + kLayer + "3.down.bias`", "lists it as `" + kLayer + "1.down.bias`"});
}

TEST(Experts, CutOverAnotherNumberOfRanks) {
  CheckpointCopy copy("moe_ep2_dp4");
  for (int p = 0; p < 4; ++p) {
    copy.Set(ZeroFile(p), {"optimizer_state_dict", "partition_count", "2"}, pytorch::MakeInteger(4));
  }
  ExpectFailure(copy, ErrorCode::kBadData, {"group 2 in", "is cut over 4 partitions, and there are files of 2"});
}

TEST(Experts, GroupThatIsNotMarked) {
  CheckpointCopy copy("moe_ep2_dp4");
  for (int p = 0; p < 4; ++p) {
    copy.Set(ZeroFile(p), {"optimizer_state_dict", "base_optimizer_state", "param_groups", "2", "moe"}, nullptr);
    copy.Set(ZeroFile(p), {"optimizer_state_dict", "partition_count", "2"}, pytorch::MakeInteger(4));
  }
  ExpectFailure(copy, ErrorCode::kBadData, {"0.up.weight` is an expert's, and group 2 in", "is not"});
}

TEST(Experts, CountsThatDoNotFit) {
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Set(kModel, {"num_experts"}, pytorch::MakeList({pytorch::MakeInteger(4), pytorch::MakeInteger(3)}));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"there is `layer_1_expert_3_mp_rank_00_model_states.pt`, and `num_experts` of that rank is [4, 3]"});
  copy.Remove("layer_1_expert_3_mp_rank_00_model_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"lists 2 experts `blocks.3.moe.deepspeed_moe.experts.deepspeed_experts.*`, and the files of experts have 3"});
}

TEST(Experts, OptimizersWithoutZero) {
  const std::string first = "expp_rank_0_mp_rank_00_optim_states.pt";
  const std::string second = "expp_rank_1_mp_rank_00_optim_states.pt";
  {
    CheckpointCopy copy("moe_zero0_fp32");
    copy.Copy(second, "expp_rank_3_mp_rank_00_optim_states.pt");
    ExpectFailure(copy, ErrorCode::kBadData,
                  {"there is `expp_rank_3_mp_rank_00_optim_states.pt`, and the experts are shared out over 2 ranks"});
    copy.Copy(second, "expp_rank_2_mp_rank_00_optim_states.pt");
    copy.Remove("expp_rank_3_mp_rank_00_optim_states.pt");
    ExpectFailure(copy, ErrorCode::kUnsupported, {"the 4 experts", "do not divide over the 3 ranks"});
  }
  {
    CheckpointCopy copy("moe_zero0_fp32");
    copy.Set(second, {"optimizer", "param_groups", "2", "lr"}, pytorch::MakeDouble(0.5));
    ExpectFailure(copy, ErrorCode::kBadData, {"`param_groups` of group 2 is", first, second});
  }
  {
    CheckpointCopy copy("moe_zero0_fp32");
    copy.Set(second, {"optimizer"}, pytorch::MakeNone());
    ExpectFailure(copy, ErrorCode::kBadData, {"`" + second + "` holds no `optimizer`"});
  }
  {
    CheckpointCopy copy("moe_zero0_fp32");
    copy.Set(second, {"optimizer", "param_groups", "2", "moe"}, nullptr);
    ExpectFailure(copy, ErrorCode::kUnsupported, {"does not say which parameter is which"});
  }
}

TEST(Experts, OfOtherForms) {
  CheckpointCopy older("moe_ep2_dp4");
  older.Write("expert_3_mp_rank_00_model_states.pt", "");
  ExpectFailure(older, ErrorCode::kUnsupported,
                {"expert_3_mp_rank_00_model_states.pt", "experts of an older DeepSpeed"});
  CheckpointCopy copy("moe_ep2_dp4");
  copy.Set(kModel, {"num_experts"}, pytorch::MakeInteger(4));
  ExpectFailure(copy, ErrorCode::kUnsupported, {"has `num_experts` as one number"});
}

}  // namespace
}  // namespace ucp::deepspeed
