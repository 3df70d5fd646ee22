// Checkpoints that are damaged, incomplete, contradictory or of a kind that is not read: each has its sentence.
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
using pytorch::MakeText;
using ::testing::AllOf;
using testing::CheckpointCopy;
using testing::ExpectFailure;
using ::testing::HasSubstr;
using testing::Read;

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kZero0 = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
const std::string kZero1 = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";

TEST(DeepSpeedDamage, MissingPartition) {
  CheckpointCopy copy("zero1_dp4");
  copy.Remove("bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt");
  ExpectWeightsAlone(copy,
                     {"`bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt` is missing", "have 4 files, and there are 3"});
}

TEST(DeepSpeedDamage, MissingLastPartition) {
  CheckpointCopy copy("zero1_dp4");
  copy.Remove("bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"is cut over 4 partitions, and there are files of 3",
                 "`bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt` is missing"});
}

TEST(DeepSpeedDamage, MissingModelStates) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Remove("mp_rank_03_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData, {"`mp_rank_03_model_states.pt` is missing", "is 4, and there are 3"});
  copy.Remove("mp_rank_01_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`mp_rank_01_model_states.pt` is missing", "while there is `mp_rank_02_model_states.pt`"});
}

TEST(DeepSpeedDamage, MissingLayerFile) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Remove("layer_05-model_01-model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"layer 5 has `layer_05-model_00-model_states.pt`, and no file for tensor-parallel rank 1 of 2"});
}

TEST(DeepSpeedDamage, MissingLayer) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Remove("layer_05-model_00-model_states.pt");
  copy.Remove("layer_05-model_01-model_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"`layer_05-model_00-model_states.pt` is missing; `param_shapes` in `mp_rank_0", "lists its tensor `5."});
}

TEST(DeepSpeedDamage, LayerFileWithoutATensor) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Set("layer_05-model_01-model_states.pt", {"input_layernorm.weight"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`layer_05-model_01-model_states.pt` has no tensor `input_layernorm.weight`",
                 "lists `5.input_layernorm.weight`"});
}

TEST(DeepSpeedDamage, ModuleWithoutAListedTensor) {
  for (const auto& [name, list] : {std::pair("tone", "param_shapes"), std::pair("table", "buffer_names")}) {
    CheckpointCopy copy("frozen_buffers_zero2");
    copy.Set(kModel, {"module", name}, nullptr);
    ExpectFailure(copy, ErrorCode::kBadData,
                  {fmt::format("the module in `{}` has no tensor `{}`, and `{}` lists it", kModel, name, list)});
  }
}

TEST(DeepSpeedDamage, ListedFrozenTensorThatIsNowhere) {
  CheckpointCopy copy("frozen_buffers_zero2");
  copy.Set(kModel, {"frozen_param_shapes", "lost.weight"}, pytorch::MakeTorchSize({3}));
  ExpectFailure(copy, ErrorCode::kBadData, {"has no tensor `lost.weight`, and `frozen_param_shapes` lists it"});
}

TEST(DeepSpeedDamage, TwoStatesInTheSameMemory) {
  CheckpointCopy copy("zero1_dp4");
  const std::vector<std::string> state = {"optimizer_state_dict", "base_optimizer_state", "state", "0"};
  copy.Edit(kZero1, [&](const pytorch::ValuePtr& root) {
    pytorch::ValuePtr all = pytorch::Find(*pytorch::Find(*pytorch::Find(*root, state[0]), state[1]), state[2]);
    std::vector<std::string> path = state;
    path.emplace_back("exp_avg_sq");
    return testing::Replaced(root, path, pytorch::Find(*pytorch::Find(*all, std::int64_t{0}), "exp_avg"));
  });
  ExpectFailure(copy, ErrorCode::kBadData,
                {kZero1, "`exp_avg` of group 0", "`exp_avg_sq` of group 0", "are the same memory"});
}

TEST(DeepSpeedDamage, ImpossibleDegrees) {
  for (std::int64_t degree : {std::int64_t{1} << 40, std::int64_t{3}, std::int64_t{0}, std::int64_t{-1}}) {
    CheckpointCopy copy("gpt_pp2_tp2_dp2");
    for (int rank = 0; rank < 4; ++rank) {
      copy.Set(fmt::format("mp_rank_{:02}_model_states.pt", rank), {"checkpoint_parallel_dimensions", "pp_degree"},
               MakeInteger(degree));
    }
    ExpectFailure(copy, ErrorCode::kBadData,
                  {kModel, fmt::format("says pp_degree {} and tp_degree 2, which 4 model-parallel ranks", degree)});
  }
}

TEST(DeepSpeedDamage, LargeTensorInTheClientState) {
  CheckpointCopy copy("zero1_dp4");
  copy.Edit(kModel, [](const pytorch::ValuePtr& root) {
    const pytorch::Value& module = *pytorch::Find(*root, "module");
    pytorch::Tensor tensor = *pytorch::Find(module, "embed.weight")->As<pytorch::Tensor>();
    tensor.sizes = {std::int64_t{20} << 20};
    tensor.strides = {0};
    pytorch::ValuePtr notes = pytorch::MakeDict({{MakeText("big"), pytorch::MakeTensor(std::move(tensor))}});
    return testing::Replaced(root, std::vector<std::string>{"notes"}, MakeList({MakeInteger(1), notes}));
  });
  ExpectFailure(copy, ErrorCode::kUnsupported,
                {"its client state, `notes.1.big`: ", kModel, "of at most 16777216 is carried over; save it in"});
}

TEST(DeepSpeedDamage, OnlyModelStatesAreThere) {
  CheckpointCopy copy("zero1_dp2");
  copy.Remove("zero_pp_rank_0_mp_rank_00_optim_states.pt");
  copy.Remove("zero_pp_rank_1_mp_rank_00_optim_states.pt");
  ExpectWeightsAlone(copy, {"holds no `*_optim_states.pt`"});
}

TEST(DeepSpeedDamage, TwoFilesOfOneRank) {
  CheckpointCopy copy("zero1_dp4");
  copy.Copy(kZero0, "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"`" + kZero0 + "` and `zero_pp_rank_0_mp_rank_00_optim_states.pt` are both the file of the same rank"});
}

TEST(DeepSpeedDamage, TruncatedFile) {
  CheckpointCopy copy("zero1_dp4");
  copy.Truncate(kZero1, 10000);
  ExpectFailure(copy, ErrorCode::kBadData, {kZero1});
}

TEST(DeepSpeedDamage, StorageShorterThanItsTensor) {
  CheckpointCopy copy("zero1_dp2");
  const std::string file = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  copy.Set(file, {"optimizer_state_dict", "base_optimizer_state", "state", "0", "exp_avg"},
           pytorch::MakeWholeTensor("0", DType::kFloat32, {std::int64_t{1} << 40}));
  ExpectFailure(copy, ErrorCode::kBadData, {file});
}

TEST(DeepSpeedDamage, RanksOfDifferentSteps) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Set("mp_rank_02_model_states.pt", {"global_steps"}, MakeInteger(3));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`global_steps` is 4 in `mp_rank_00_model_states.pt` and 3 in `mp_rank_02_model_states.pt`"});
}

TEST(DeepSpeedDamage, RanksOfDifferentVersions) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Set("mp_rank_01_model_states.pt", {"ds_version"}, MakeText("0.9.1"));
  ExpectFailure(copy, ErrorCode::kBadData, {"`ds_version`", "0.19.8", "0.9.1", "mp_rank_01_model_states.pt"});
}

TEST(DeepSpeedDamage, PartitionsOfDifferentSteps) {
  CheckpointCopy copy("zero1_dp2");
  copy.Set("zero_pp_rank_1_mp_rank_00_optim_states.pt",
           {"optimizer_state_dict", "base_optimizer_state", "state", "1", "step"}, MakeInteger(5));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"the optimizer's step is 4 in `zero_pp_rank_0_mp_rank_00_optim_states.pt` and 5 in "
                 "`zero_pp_rank_1_mp_rank_00_optim_states.pt`"});
}

TEST(DeepSpeedDamage, PartitionsOfDifferentHyperParameters) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kZero1, {"optimizer_state_dict", "base_optimizer_state", "param_groups", "0", "lr"},
           pytorch::MakeDouble(0.5));
  ExpectFailure(copy, ErrorCode::kBadData, {"`param_groups` of group 0", "0.5", kZero0, kZero1});
}

TEST(DeepSpeedDamage, PartitionWithoutAState) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kZero1, {"optimizer_state_dict", "base_optimizer_state", "state", "0", "exp_avg_sq"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"the list of states of group 0", "exp_avg_sq", kZero1});
}

TEST(DeepSpeedDamage, ShapesThatDoNotFitThePartitions) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"param_shapes", "0", "embed.weight"}, pytorch::MakeTorchSize({1, 33}));
  // The module is compared first; without it, the sizes of the partitions tell.
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`embed.weight` has shape [101, 33] in the module and [1, 33] in `param_shapes`"});
  copy.Set(kModel, {"module"}, pytorch::MakeNone());
  ExpectFailure(copy, ErrorCode::kBadData,
                {kZero0, "group 0 has 4 partitions of", "the parameters in `param_shapes` have"});
}

TEST(DeepSpeedDamage, HugeShapes) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"module"}, pytorch::MakeNone());
  copy.Set(kModel, {"param_shapes", "0", "embed.weight"},
           pytorch::MakeTorchSize({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  ExpectFailure(copy, ErrorCode::kBadData, {"have more than 2^63 elements"});
  copy.Set(kModel, {"param_shapes", "0", "embed.weight"}, pytorch::MakeTorchSize({-1, 33}));
  ExpectFailure(copy, ErrorCode::kBadData, {"`param_shapes` has an entry `embed.weight` that is not a shape"});
}

TEST(DeepSpeedDamage, AlignmentPaddingsThatAreNone) {
  CheckpointCopy copy("alignment");
  copy.Set(kZero0, {"optimizer_state_dict", "param_alignment_paddings", "0"}, MakeList({MakeInteger(1)}));
  ExpectFailure(copy, ErrorCode::kBadData, {"`param_alignment_paddings`"});
}

TEST(DeepSpeedDamage, DifferentNumbersOfGroups) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"param_shapes"}, MakeList({}));
  copy.Set(kModel, {"module"}, pytorch::MakeNone());
  ExpectFailure(copy, ErrorCode::kBadData, {"2 optimizer groups and `param_shapes` in", "has 0"});
}

TEST(DeepSpeedDamage, CodeInAPickleStaysAValue) {
  CheckpointCopy copy("zero1_dp4");
  pytorch::Call call;
  call.callable = pytorch::MakeGlobal("posix", "system");
  call.arguments = pytorch::MakeTuple({MakeText("touch " + copy.root() + "/executed")});
  copy.Set(kModel, {"surprise"}, pytorch::MakeCall(std::move(call)));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint));
  pytorch::ValuePtr kept = FindEntry(checkpoint->training.ranks.front().client, "surprise");
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(pytorch::ClassName(*kept), "posix.system");
  auto kind = RealFiles().Kind(copy.root() + "/executed");
  ASSERT_TRUE(static_cast<bool>(kind));
  EXPECT_EQ(*kind, PathKind::kMissing);
}

TEST(DeepSpeedDamage, StrayFoldersAndFilesAreRemarkedOn) {
  CheckpointCopy copy("zero1_dp4");
  copy.MakeFolder("older_copy");
  copy.Write("notes.pt", "");
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint));
  EXPECT_THAT(checkpoint->inventory.remarks,
              ::testing::ElementsAre(HasSubstr("the folder `older_copy`"), HasSubstr("`notes.pt` is not a file of")));
}

TEST(DeepSpeedDamage, LatestThatNamesNothing) {
  CheckpointCopy copy("zero1_dp2");
  copy.Write("../latest", "global_step5");
  ExpectFailure(copy, ErrorCode::kBadData, {"names `global_step5`, and there is no folder"});
}

TEST(DeepSpeedDamage, AWholeOptimizerBesidePartitions) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"optimizer"}, pytorch::MakeDict({}));
  ExpectFailure(copy, ErrorCode::kBadData,
                {kModel, "holds the whole optimizer of a run without ZeRO", kZero0, "stale"});
}

struct Refusal {
  std::string file;
  std::vector<std::string> path;
  pytorch::ValuePtr value;
  std::string words;
};

TEST(DeepSpeedDamage, ShapesThatAreNowhere) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"param_shapes"}, pytorch::MakeNone());
  ExpectFailure(copy, ErrorCode::kBadData, {kModel, kZero0, "has `param_shapes`, so nothing says which parameters"});
}

TEST(DeepSpeedDamage, KindsThatAreNotReadYet) {
  for (const Refusal& refusal : {
           Refusal{kZero0, {"optimizer_state_dict", "zero_stage"}, MakeInteger(3), "has the ZeRO stage `3`"},
           Refusal{kZero0, {"optimizer_state_dict", "fp32_flat_groups"}, MakeList({}), "is of ZeRO stage 3"},
       }) {
    CheckpointCopy copy("zero1_dp4");
    copy.Set(refusal.file, refusal.path, refusal.value);
    ExpectFailure(copy, ErrorCode::kUnsupported, {refusal.file, refusal.words, "this version does not read yet"});
  }
}

TEST(DeepSpeedDamage, FilesOfKindsThatAreNotReadYet) {
  CheckpointCopy copy("zero1_dp4");
  copy.MakeFolder("offloaded_tensors");
  ExpectFailure(copy, ErrorCode::kUnsupported, {"offloaded to NVMe"});
}

TEST(DeepSpeedDamage, RanksAreSortedAsNumbers) {
  // Old names have other numbers of digits; 100 comes before 99 only as text.
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Rename("mp_rank_02_model_states.pt", "mp_rank_002_model_states.pt");
  copy.Rename("bf16_zero_pp_rank_0_mp_rank_02_optim_states.pt", "bf16_zero_pp_rank_0_mp_rank_2_optim_states.pt");
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(checkpoint->inventory.mesh.Size("pp"), 2);
}

TEST(DeepSpeedDamage, OldFilesWithoutDegrees) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  for (int rank = 0; rank < 4; ++rank) {
    copy.Set(fmt::format("mp_rank_{:02}_model_states.pt", rank), {"checkpoint_parallel_dimensions"}, nullptr);
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint));
  EXPECT_EQ(checkpoint->inventory.mesh.Size("tp"), 2);
  EXPECT_EQ(checkpoint->inventory.mesh.Size("pp"), 2);
}

TEST(DeepSpeedDamage, AConfigurationThatIsText) {
  CheckpointCopy copy("zero1_dp4");
  copy.Set(kModel, {"ds_config"}, MakeText("ds_config.json"));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(pytorch::AsText(*FindEntry(checkpoint->training.engine, "ds_config")), "ds_config.json");
  EXPECT_TRUE(static_cast<bool>(testing::LayOutWhole(*FindFormat("universal"), *checkpoint)));
  const std::string message = testing::FailureOf(testing::LayOutWhole(*FindFormat("deepspeed"), *checkpoint)).message;
  EXPECT_THAT(message, HasSubstr("the source has no `ds_config`, so the strategy has to say zero=0 to zero=3 for the"));
}

TEST(DeepSpeedDamage, RanksOfDifferentDegrees) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Set("mp_rank_01_model_states.pt", {"checkpoint_parallel_dimensions", "tp_degree"}, MakeInteger(4));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`tp_degree` is 2 in `mp_rank_00_model_states.pt` and 4 in `mp_rank_01_model_states.pt`"});
}

TEST(DeepSpeedDamage, BeforeTheFirstStep) {
  CheckpointCopy copy("zero1_dp4");
  for (int d = 0; d < 4; ++d) {
    copy.Set(fmt::format("bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", d),
             {"optimizer_state_dict", "base_optimizer_state", "state"}, pytorch::MakeDict({}));
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  for (const LogicalTensor& tensor : testing::WholeTensors(checkpoint->inventory)) {
    ASSERT_EQ(tensor.states.size(), 1u) << tensor.name;
    EXPECT_EQ(tensor.states.front().name, "fp32");
  }
  EXPECT_THAT(checkpoint->inventory.remarks, ::testing::ElementsAre(HasSubstr("the optimizer has no states")));
}

}  // namespace
}  // namespace ucp
