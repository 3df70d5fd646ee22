#include "compiler/formats/deepspeed/universal/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::universal {
namespace {

using pytorch::MakeInteger;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder that this project wrote, to be changed.
class UniversalRead : public ::testing::Test {
 protected:
  testing::CheckpointCopy Copy(const std::string& fixture) {
    Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(fixture));
    auto target = testing::LayOutWhole(*FindFormat("universal"), checkpoint);
    EXPECT_TRUE(static_cast<bool>(target));
    const std::string root = temporary_.path() + "/" + fixture;
    testing::WriteTarget(*target, root);
    return testing::CheckpointCopy(root, checkpoint.training.tag + "_universal");
  }

  static Checkpoint Read(const testing::CheckpointCopy& copy) {
    auto checkpoint = DescribeFolder(RealFiles(), copy.folder(), {});
    if (checkpoint) return std::move(*checkpoint);
    ADD_FAILURE() << TakeFailure(checkpoint.takeError()).message;
    return {};
  }
  static void ExpectFailure(const testing::CheckpointCopy& copy, ErrorCode code,
                            const std::vector<std::string>& words) {
    FailureText failure = testing::FailureOf(DescribeFolder(RealFiles(), copy.folder(), {}));
    EXPECT_EQ(failure.code, code) << failure.message;
    for (const std::string& word : words) EXPECT_THAT(failure.message, HasSubstr(word));
  }

  testing::TemporaryFolder temporary_;
};

const Shard* FindShard(const Checkpoint& checkpoint, const std::string& name) {
  for (const Shard& shard : checkpoint.inventory.storage.shards) {
    if (shard.tensor == name) return &shard;
  }
  return nullptr;
}

pytorch::ValuePtr Bare(const pytorch::ValuePtr& root) {
  pytorch::Tensor tensor = *pytorch::Find(*root, "param")->As<pytorch::Tensor>();
  std::int64_t elements = 1;
  for (std::int64_t size : tensor.sizes) elements *= size;
  tensor.sizes = {elements};
  tensor.strides = {1};
  return pytorch::MakeTensor(std::move(tensor));
}

TEST_F(UniversalRead, BareVectorsTakeTheirShapeFromTheModelStates) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"}) {
    copy.Edit(fmt::format("zero/embed.weight/{}.pt", state), Bare);
  }
  EXPECT_EQ(FindShard(Read(copy), "embed.weight")->shape, (std::vector<std::int64_t>{101, 33}));

  copy.Set("mp_rank_00_model_states.pt", {"param_shapes", "0", "embed.weight"}, pytorch::MakeTorchSize({7, 33}));
  ExpectFailure(copy, ErrorCode::kBadData, {"has 3333 elements, and the model-states file gives the shape [7, 33]"});
  copy.Set("mp_rank_00_model_states.pt", {"param_shapes"}, pytorch::MakeNone());
  ExpectFailure(copy, ErrorCode::kUnsupported, {"is a bare vector of 3333 elements, as stage 3 writes it"});
}

TEST_F(UniversalRead, StageThreeKeepsTheStepInOnePlace) {
  testing::CheckpointCopy copy = Copy("fused_adam_zero2");
  for (const auto& [name, tensor] : testing::TruthOf("fused_adam_zero2").tensors)
    copy.Remove("zero/" + name + "/step.pt");
  const Checkpoint checkpoint = Read(copy);
  ASSERT_EQ(checkpoint.training.groups.size(), 1u);
  ASSERT_NE(checkpoint.training.groups[0].step, nullptr);
  EXPECT_EQ(pytorch::AsInteger(*checkpoint.training.groups[0].step), 4);
}

TEST_F(UniversalRead, StageThreeHasItsOwnModelStates) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  copy.Remove("mp_rank_00_model_states.pt");
  EXPECT_EQ(Read(copy).training.ranks.size(), 1u);
  copy.Remove("zero_pp_rank_0_mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData, {"`mp_rank_00_model_states.pt` is missing"});
}

TEST_F(UniversalRead, LostModelStatesAreFoundOut) {
  // Only this file holds the frozen tensors and the buffers.
  testing::CheckpointCopy copy = Copy("frozen_buffers_zero2");
  copy.Remove("mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`mp_rank_00_model_states.pt` is missing, and `zero_pp_rank_0_mp_rank_00_model_states.pt` lists",
                 "was the folder written to its end?"});
}

TEST_F(UniversalRead, FoldersOfTensorsThatAreNotTrainedAreNotRead) {
  // As newer versions of DeepSpeed write them, in float32.
  testing::CheckpointCopy copy = Copy("frozen_buffers_zero2");
  copy.MakeFolder("zero/table");
  copy.Copy("zero/tone/fp32.pt", "zero/table/fp32.pt");
  const Checkpoint checkpoint = Read(copy);
  EXPECT_THAT(checkpoint.inventory.remarks, ElementsAre(HasSubstr("1 folders below `zero` (first `table`)")));
  EXPECT_EQ(FindShard(checkpoint, "table")->kind, TensorKind::kBuffer);
}

TEST_F(UniversalRead, FusedParametersAreSeenInTheirOwnShape) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"}) {
    copy.Edit(fmt::format("zero/embed.weight/{}.pt", state), [](const pytorch::ValuePtr& root) {
      return pytorch::MakeDict(
          {{pytorch::MakeText("param"), Bare(root)}, {pytorch::MakeText("sub_param_shape"), pytorch::MakeTuple({})}});
    });
  }
  EXPECT_EQ(FindShard(Read(copy), "embed.weight")->shape, (std::vector<std::int64_t>{101, 33}));
}

TEST_F(UniversalRead, HalfWrittenFolders) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  copy.Remove("zero/tone/exp_avg.pt");
  ExpectFailure(copy, ErrorCode::kBadData, {"`", "/zero/tone/exp_avg.pt` is missing"});
  copy.Remove("zero/tone/fp32.pt");
  ExpectFailure(copy, ErrorCode::kBadData, {"/zero/tone/fp32.pt` is missing"});
  copy.Remove("zero/tone");
  ExpectFailure(copy, ErrorCode::kBadData, {"/zero/tone` is missing, and `param_shapes` lists this parameter"});
  copy.Remove("zero/optimizer_state.pt");
  ExpectFailure(copy, ErrorCode::kIo, {"optimizer_state.pt"});
}

TEST_F(UniversalRead, Contradictions) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  copy.Edit("zero/tone/step.pt", [](const pytorch::ValuePtr&) { return MakeInteger(9); });
  ExpectFailure(copy, ErrorCode::kBadData, {"the optimizer's step is", "zero/tone/step.pt"});

  testing::CheckpointCopy ranks = Copy("gpt_pp2_tp2_dp2");
  ranks.Remove("mp_rank_01_model_states.pt");
  ExpectFailure(ranks, ErrorCode::kBadData, {"`mp_world_size` in `mp_rank_00_model_states.pt` is 4, and there are 3"});

  testing::CheckpointCopy shapes = Copy("zero1_dp4");
  shapes.Edit("zero/embed.weight/exp_avg.pt", [](const pytorch::ValuePtr& root) {
    return testing::Replaced(root, std::vector<std::string>{"param"}, Bare(root));
  });
  ExpectFailure(shapes, ErrorCode::kBadData, {"embed.weight", "[3333]", "[101, 33]"});
}

TEST_F(UniversalRead, ExpertsThatNobodyCounts) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  copy.Set("zero/tone/fp32.pt", {"is_expert_param"}, pytorch::MakeBool(true));
  ExpectFailure(copy, ErrorCode::kBadData, {"has the shape [3], and nothing as `ep_num_experts`"});
}

TEST_F(UniversalRead, FilesThatAreSomethingElse) {
  testing::CheckpointCopy copy = Copy("zero1_dp2");
  copy.Edit("zero/tone/fp32.pt", [](const pytorch::ValuePtr&) { return MakeInteger(9); });
  ExpectFailure(copy, ErrorCode::kBadData, {"holds neither a tensor nor a dict with the tensor `param`"});
  copy.Write("zero/tone/fp32.pt", "not a zip file");
  ExpectFailure(copy, ErrorCode::kBadData, {"zero/tone/fp32.pt"});
}

}  // namespace
}  // namespace ucp::universal
