// The entry `folding`: whose each file is, where tensor-parallel ranks share AutoEP's experts out. That the elements
// are those of the engine is for tests/engine/test_truth.py. Here: a file that says something else is
// refused.
#include "compiler/formats/deepspeed/common/folding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp {
namespace {

using pytorch::MakeInteger;
using pytorch::MakeText;
using testing::CheckpointCopy;
using ::testing::ElementsAre;
using testing::ExpectFailure;

const std::string kStage2 = "autoep_tp2_ep4_dp4";
const std::string kCopies = "autoep_tp4_ep2";
const std::string kStage3 = "autoep_tp4_ep2_dp2_zero3";

const std::string kModel = "mp_rank_01_model_states.pt";
const std::string kExpert = "layer_0_expert_3_mp_rank_01_model_states.pt";
const std::string kOptimizer = "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt";
const std::string kTensor = "model.layers.1.mlp.experts.w1";

std::string MeshOf(const std::string& fixture) {
  return ToString(testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture)).inventory.mesh);
}

// Where each copy of the weights, and each part of the masters, stands.
std::set<std::string> PlacesOf(const std::string& fixture, const std::string& tensor) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture));
  std::set<std::string> places;
  for (const Shard& shard : checkpoint.inventory.storage.shards) {
    if (shard.tensor == tensor) places.insert(ToString(shard.coordinate));
  }
  return places;
}

TEST(Folding, ExpertsAreCountedOverAllRanks) {
  EXPECT_EQ(MeshOf(kStage2), "pp=1 dp=4 tp=2 edp=2 ep=4");
  EXPECT_EQ(MeshOf(kCopies), "pp=1 dp=1 tp=4 edp=2 ep=2");
  EXPECT_EQ(MeshOf(kStage3), "pp=1 dp=2 tp=4 edp=4 ep=2");
}

// Rank 2 of four is the same expert rank as rank 0, and saves the same files under its own number.
TEST(Folding, RanksWithTheSameExpertsHaveCopiesOfTheirWeights) {
  EXPECT_THAT(PlacesOf(kCopies, kTensor), ElementsAre("ep=0 pp=0", "ep=0 pp=0 tp=0", "ep=0 pp=0 tp=2", "ep=1 pp=0",
                                                      "ep=1 pp=0 tp=1", "ep=1 pp=0 tp=3"));
}

TEST(Folding, FilesThatSayTheyAreOfOtherRanks) {
  struct Wrong {
    std::string file;
    std::string key;
    std::int64_t said;
    std::int64_t known;
  };
  for (const auto& [file, key, said, known] :
       {Wrong{kModel, "tp_size", 4, 2}, Wrong{kModel, "tp_rank", 0, 1}, Wrong{kModel, "ep_size", 2, 4},
        Wrong{kModel, "ep_rank", 0, 1}, Wrong{kModel, "zero_partition_count", 8, 4},
        Wrong{kModel, "zero_partition_rank", 1, 0}, Wrong{kExpert, "tp_rank", 0, 1}, Wrong{kExpert, "ep_rank", 1, 3},
        Wrong{kExpert, "zero_partition_count", 4, 2}, Wrong{kOptimizer, "tp_rank", 0, 1},
        Wrong{kOptimizer, "ep_rank", 1, 3}, Wrong{kOptimizer, "zero_partition_rank", 2, 3},
        Wrong{kOptimizer, "zero_partition_count", 2, 4}}) {
    CheckpointCopy copy(kStage2);
    copy.Set(file, {"folding", key}, MakeInteger(said));
    ExpectFailure(copy, ErrorCode::kBadData,
                  {fmt::format("`folding` in `{}` has {} as `{}`, and", file, said, key),
                   fmt::format("`ds_autoep_layers` in `mp_rank_00_model_states.pt` it is {}", known)});
  }
}

TEST(Folding, FilesOfStage3ThatSayTheyAreOfOtherRanks) {
  for (const std::string file :
       {"zero_pp_rank_1_mp_rank_02_model_states.pt", "bf16_zero_pp_rank_1_mp_rank_02_optim_states.pt"}) {
    CheckpointCopy copy(kStage3);
    copy.Set(file, {"folding", "ep_rank"}, MakeInteger(1));
    ExpectFailure(copy, ErrorCode::kBadData, {"`folding` in `" + file + "` has 1 as `ep_rank`", "it is 0"});
  }
}

TEST(Folding, FilesThatDoNotSayIt) {
  for (const std::string& file : {kModel, kExpert, kOptimizer}) {
    CheckpointCopy copy(kStage2);
    copy.Set(file, {"folding"}, nullptr);
    ExpectFailure(copy, ErrorCode::kBadData, {"`" + file + "` has no entry `folding`, as files of 2 tensor-parallel"});
  }
  CheckpointCopy copy(kStage2);
  copy.Set("mp_rank_00_model_states.pt", {"folding"}, nullptr);
  ExpectFailure(copy, ErrorCode::kUnsupported,
                {"there are 2 tensor-parallel ranks, and `mp_rank_00_model_states.pt` has no entry `folding`"});
}

TEST(Folding, EntriesThatAreNone) {
  for (const auto& [key, value, code, words] :
       {std::tuple("version", MakeInteger(2), ErrorCode::kUnsupported, "is of version 2, and this program reads"),
        std::tuple("etp_size", MakeInteger(2), ErrorCode::kUnsupported, "each expert is cut over 2 ranks (`etp_size`)"),
        std::tuple("tp_rank", MakeText("1"), ErrorCode::kBadData, "as `tp_rank`, and not a number"),
        std::tuple("ep_size", pytorch::ValuePtr(), ErrorCode::kBadData, "has nothing as `ep_size`"),
        std::tuple("zero_partition_group", MakeText("edp"), ErrorCode::kBadData, "and such files have `dense_dp`")}) {
    CheckpointCopy copy(kStage2);
    copy.Set(kModel, {"folding", key}, value);
    ExpectFailure(copy, code, {"`folding` in `" + kModel + "`", words});
  }
}

TEST(Folding, WhereAutoEpSpreadsNoExperts) {
  for (const std::string file : {"mp_rank_00_model_states.pt", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"}) {
    CheckpointCopy copy("zero2_dp4");
    copy.Set(file, {"folding"}, ComposeFolding({2, 0, 4, 0, "dense_dp", 4, 0}));
    ExpectFailure(copy, ErrorCode::kBadData,
                  {"`" + file + "` has an entry `folding`", "no model-states file has `ds_autoep_layers`"});
  }
}

TEST(Folding, TensorParallelRanksThatListOtherExperts) {
  CheckpointCopy copy(kStage2);
  copy.Set("mp_rank_01_model_states.pt", {"ds_autoep_layers", "0", "affine_maps"}, nullptr);
  copy.Set("mp_rank_01_model_states.pt", {"ds_autoep_layers", "0", "moe_layer_id"}, MakeInteger(7));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`mp_rank_00_model_states.pt` and `mp_rank_01_model_states.pt`",
                 "places the experts of `model.layers.1.mlp.experts` otherwise"});
}

TEST(Folding, FileOfAnExpertThatOneOfTheRanksLacks) {
  CheckpointCopy copy(kCopies);
  copy.Remove("layer_1_expert_0_mp_rank_02_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData, {"`layer_1_expert_0_mp_rank_02_model_states.pt` is missing"});
}

TEST(Folding, RanksThatShareAnotherSubGroup) {
  CheckpointCopy copy(kStage3);
  const std::string file = "bf16_zero_pp_rank_1_mp_rank_02_optim_states.pt";
  copy.Set(file, {"optimizer_state_dict", "ds_zero_partition_groups", "0", "partition_ranks"},
           pytorch::MakeList({MakeInteger(0), MakeInteger(1)}));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"sub-group 0 is cut over the ranks 0, 1, as `ds_zero_partition_groups` in `" + file + "`"});
}

}  // namespace
}  // namespace ucp
