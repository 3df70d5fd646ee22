// Pipelines without ZeRO: which parameter is which follows from the layers, or from recorded addresses, or is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/format.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp {
namespace {

using pytorch::MakeInteger;
using pytorch::MakeList;
using testing::CheckpointCopy;
using testing::ExpectFailure;

const std::string kFirst = "mp_rank_00_model_states.pt";
const std::string kSecond = "mp_rank_01_model_states.pt";
const std::string kAddressed = "pipeline_zero0_bf16";
const std::string kUnfused = "pipeline_zero0_fp16";
const std::string kFused = "pipeline_zero0_fused_fp16";
const std::string kPartition = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";

TEST(PipelineWithoutZero, ALayerIsOnTheStageThatStepsItsElements) {
  CheckpointCopy copy(kUnfused);
  llvm::Expected<Checkpoint> checkpoint = testing::Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << llvm::toString(checkpoint.takeError());
  std::map<std::string, std::int64_t> stages;
  for (const Shard& shard : checkpoint->inventory.storage.shards) {
    stages.emplace(shard.tensor.substr(0, shard.tensor.find('.')), shard.coordinate.At("pp"));
  }
  EXPECT_EQ(stages, (std::map<std::string, std::int64_t>{{"0", 0}, {"1", 0}, {"2", 0}, {"3", 1}, {"4", 1}}));
}

TEST(PipelineWithoutZero, AParameterThatNoLayerFileHas) {
  CheckpointCopy copy(kUnfused);
  copy.Remove("layer_03-model_states.pt");
  ExpectFailure(copy, ErrorCode::kUnsupported, {kSecond, "does not say which parameter is which", "a tied module"});
}

TEST(PipelineWithoutZero, AParameterThatNoStageSteps) {
  CheckpointCopy copy(kUnfused);
  copy.Copy("layer_04-model_states.pt", "layer_05-model_states.pt");
  ExpectFailure(copy, ErrorCode::kUnsupported, {kSecond, "the parameters of layer 5 are stepped on no stage"});
}

TEST(PipelineWithoutZero, SeveralFlatGroups) {
  CheckpointCopy copy(kFused);
  copy.Edit(kFirst, [](const pytorch::ValuePtr& root) {
    const pytorch::Value& optimizer = *pytorch::Find(*root, "optimizer");
    const pytorch::ValuePtr whole = (*pytorch::Items(*pytorch::Find(optimizer, "fp32_groups_flat")))[0];
    pytorch::Tensor low = *whole->As<pytorch::Tensor>();
    pytorch::Tensor high = low;
    low.sizes[0] = 1000;
    high.sizes[0] -= 1000;
    high.offset += 1000;
    const pytorch::Value& base = *pytorch::Find(optimizer, "optimizer_state_dict");
    const pytorch::ValuePtr group = (*pytorch::Items(*pytorch::Find(base, "param_groups")))[0];
    const std::vector<std::string> masters = {"optimizer", "fp32_groups_flat"};
    const std::vector<std::string> groups = {"optimizer", "optimizer_state_dict", "param_groups"};
    pytorch::ValuePtr halves = MakeList({pytorch::MakeTensor(std::move(low)), pytorch::MakeTensor(std::move(high))});
    const std::vector<std::string> params = {"params"};
    const pytorch::ValuePtr other = testing::Replaced(group, params, MakeList({MakeInteger(1)}));
    return testing::Replaced(testing::Replaced(root, masters, halves), groups, MakeList({group, other}));
  });
  ExpectFailure(copy, ErrorCode::kUnsupported, {kFirst, "the parameters of its 2 groups are one vector each"});
}

TEST(PipelineWithoutZero, AddressesThatLeaveAGap) {
  CheckpointCopy copy(kAddressed);
  copy.Set(kPartition, {"optimizer_state_dict", "param_slice_mappings", "0", "1.down.weight"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"param_slice_mappings", "2.up.weight", "what comes before it ends at"});
}

TEST(PipelineWithoutZero, AnAddressedParameterThatNoLayerFileHas) {
  CheckpointCopy copy(kAddressed);
  copy.Set("layer_02-model_states.pt", {"up.bias"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"no layer file has the tensor `2.up.bias`", kFirst});
}

TEST(PipelineWithoutZero, PartitionsBesideAWholeOptimizer) {
  CheckpointCopy copy(kAddressed);
  copy.Set(kFirst, {"optimizer", "single_partition_of_fp32_groups"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {kFirst, "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "stale"});
}

}  // namespace
}  // namespace ucp
