// Stage 3: what is damaged, incomplete or contradictory has its sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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
using ::testing::HasSubstr;
using testing::Read;

const std::string kFixture = "zero3_dp4";
const std::string kFrozen = "zero3_frozen_dp4";

std::string Model(int partition) { return fmt::format("zero_pp_rank_{}_mp_rank_00_model_states.pt", partition); }
std::string Optimizer(int partition) {
  return fmt::format("bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", partition);
}

// Everything of a stage-3 optimizer file stands in two dicts of the same name.
std::vector<std::string> Inner(std::vector<std::string> keys) {
  keys.insert(keys.begin(), {"optimizer_state_dict", "optimizer_state_dict"});
  return keys;
}

TEST(Partitioned, MissingModelFiles) {
  CheckpointCopy copy(kFixture);
  for (int partition : {3, 0, 1}) {  // Each would hold copies of what is left; the client state is that of the first.
    copy.Remove(Model(partition));
    auto checkpoint = Read(copy);
    ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
    EXPECT_THAT(
        checkpoint->inventory.remarks,
        ::testing::Contains(::testing::HasSubstr("`" + Model(partition) + "` is missing; it would hold copies")));
  }
  copy.Remove(Model(2));
  ExpectFailure(copy, ErrorCode::kBadData, {"is missing"});
}

TEST(Partitioned, MissingOptimizerFile) {
  CheckpointCopy copy(kFixture);
  copy.Remove(Optimizer(3));
  ExpectFailure(copy, ErrorCode::kBadData, {"`" + Optimizer(3) + "` is missing", "have 4 files, and there are 3"});
}

TEST(Partitioned, APartitionMissingOnBothSides) {
  CheckpointCopy copy(kFixture);
  copy.Remove(Optimizer(3));
  copy.Remove(Model(3));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`partition_count` in `" + Optimizer(0) + "` is 4, and there are files of 3 partitions"});
}

TEST(Partitioned, ModelFilesOfTwoStages) {
  CheckpointCopy copy(kFixture);
  copy.Copy(Model(0), "mp_rank_00_model_states.pt");
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`" + Model(0) + "` is of stage 3 and `mp_rank_00_model_states.pt` of another stage"});
}

TEST(Partitioned, OptimizerFilesOfAnotherStage) {
  CheckpointCopy copy(kFixture);
  copy.Set(Optimizer(2), {"optimizer_state_dict", "fp32_flat_groups"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {Optimizer(2), "there is no list `fp32_flat_groups` in it"});
}

TEST(Partitioned, PartitionsOfDifferentSteps) {
  CheckpointCopy copy(kFixture);
  copy.Set(Model(2), {"global_steps"}, MakeInteger(3));
  ExpectFailure(copy, ErrorCode::kBadData, {"`global_steps` is 4 in `" + Model(0) + "` and 3 in `" + Model(2) + "`"});
}

TEST(Partitioned, OptimizersOfDifferentSteps) {
  CheckpointCopy copy(kFrozen);
  const std::string file = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  copy.Set(file, Inner({"state", "0", "step"}), MakeInteger(5));
  ExpectFailure(copy, ErrorCode::kBadData, {"the optimizer's step is 4 in", "and 5 in `" + file + "`"});
}

TEST(Partitioned, SubGroupsOfDifferentSteps) {
  CheckpointCopy copy(kFrozen);
  for (int p = 0; p < 4; ++p) {
    copy.Set(fmt::format("zero_pp_rank_{}_mp_rank_00_optim_states.pt", p), Inner({"state", "1", "step"}),
             MakeInteger(9));
  }
  ExpectFailure(copy, ErrorCode::kBadData, {"sub-groups 0 and 1: ", "is 4 in", "and 9 in"});
}

TEST(Partitioned, DifferentLists) {
  for (const char* list : {"param_shapes", "frozen_param_shapes"}) {
    CheckpointCopy copy(kFrozen);
    std::vector<std::string> path = {list};
    if (list == std::string("param_shapes")) path.emplace_back("0");
    path.emplace_back("more");
    copy.Set(Model(1), path, pytorch::MakeTorchSize({3}));
    ExpectFailure(copy, ErrorCode::kBadData,
                  {fmt::format("`{}` is not the same in `{}` and `{}`", list, Model(0), Model(1))});
  }
}

TEST(Partitioned, ShapesThatDoNotFit) {
  CheckpointCopy copy(kFixture);
  for (int p = 0; p < 4; ++p) {
    copy.Set(Model(p), {"param_shapes", "4", "tone"}, pytorch::MakeTorchSize({5}));
  }
  ExpectFailure(
      copy, ErrorCode::kBadData,
      {"the master of sub-group 4 has 1 elements in `" + Optimizer(0) + "`", "take 2 of each of 4 partitions"});
}

TEST(Partitioned, AnotherNumberOfSubGroups) {
  CheckpointCopy copy(kFixture);
  for (int p = 0; p < 4; ++p) copy.Set(Model(p), {"param_shapes"}, MakeList({}));
  for (int p = 0; p < 4; ++p) copy.Set(Model(p), {"module"}, pytorch::MakeOrderedDict({}));
  ExpectFailure(copy, ErrorCode::kBadData, {"has 5 sub-groups and `param_shapes` in", "has 0"});
}

TEST(Partitioned, GroupsThatDoNotShareOutTheSubGroups) {
  CheckpointCopy copy(kFixture);
  copy.Set(Optimizer(0), Inner({"param_groups", "0", "params"}), MakeList({MakeInteger(0), MakeInteger(7)}));
  ExpectFailure(copy, ErrorCode::kBadData, {Optimizer(0), "`param_groups` 0 has the sub-group 7"});
  copy.Set(Optimizer(0), Inner({"param_groups", "0", "params"}), MakeList({MakeInteger(0), MakeInteger(3)}));
  ExpectFailure(copy, ErrorCode::kBadData, {"`param_groups` 1 has the sub-group 3, which is not there or in two"});
  copy.Set(Optimizer(0), Inner({"param_groups", "0", "params"}), MakeList({MakeInteger(0), MakeInteger(2)}));
  ExpectFailure(copy, ErrorCode::kBadData, {"sub-group 1 of `fp32_flat_groups` is in none of the `param_groups`"});
  copy.Set(Optimizer(0), Inner({"param_groups", "0", "params"}), nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"`param_groups` 0 has no list `params` of numbers"});
}

TEST(Partitioned, PartitionWithoutAState) {
  CheckpointCopy copy(kFixture);
  copy.Set(Optimizer(1), Inner({"state", "3", "exp_avg"}), nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"the list of states of sub-group 3", Optimizer(1)});
}

TEST(Partitioned, TwoStatesInTheSameMemory) {
  CheckpointCopy copy(kFixture);
  copy.Edit(Optimizer(2), [](const pytorch::ValuePtr& root) {
    pytorch::ValuePtr inner = pytorch::Find(*pytorch::Find(*root, "optimizer_state_dict"), "optimizer_state_dict");
    pytorch::ValuePtr state = pytorch::Find(*pytorch::Find(*inner, "state"), std::int64_t{1});
    return testing::Replaced(root, Inner({"state", "1", "exp_avg_sq"}), pytorch::Find(*state, "exp_avg"));
  });
  ExpectFailure(copy, ErrorCode::kBadData, {Optimizer(2), "of sub-group 1", "are the same memory"});
}

TEST(Partitioned, FrozenFragmentThatIsMissing) {
  CheckpointCopy copy(kFrozen);
  copy.Set(Model(2), {"frozen_param_fragments", "stem.weight"}, nullptr);
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`frozen_param_shapes` lists `stem.weight`, and 3 of 4 partitions have it"});
}

TEST(Partitioned, FrozenFragmentOfAnotherSize) {
  CheckpointCopy copy(kFrozen);
  for (int p = 0; p < 4; ++p) {
    copy.Set(Model(p), {"frozen_param_shapes", "accent"}, pytorch::MakeTorchSize({13}));
  }
  ExpectFailure(copy, ErrorCode::kBadData,
                {"the fragment of `accent` in partition 0 has 2 elements of float32, and 4 of float32"});
}

// `shared_params` lacks names that one module has for the same tensor.
TEST(Partitioned, SecondNamesShareThePlaceholder) {
  CheckpointCopy copy(kFrozen);
  copy.Set(Model(0), {"shared_params"}, pytorch::MakeDict({}));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_THAT(checkpoint->inventory.aliases, ::testing::ElementsAre(std::pair("head.weight", "embed.weight")));
}

// Nothing but the placeholders says what the second names are of, and `name` has one in the storage of another tensor.
void ExpectUnexplained(const std::string& name, const std::string& of) {
  CheckpointCopy copy(kFrozen);
  copy.Set(Model(0), {"shared_params"}, pytorch::MakeDict({}));
  copy.Edit(Model(0), [&](const pytorch::ValuePtr& root) {
    pytorch::Tensor tensor = *pytorch::Find(*pytorch::Find(*root, "module"), of)->As<pytorch::Tensor>();
    tensor.sizes = {0};
    tensor.strides = {1};
    return testing::Replaced(root, std::vector<std::string>{"module", name}, pytorch::MakeTensor(std::move(tensor)));
  });
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`head.weight` in `" + Model(0) + "` is a placeholder",
                 "stage 3 does not save the values of a parameter that is not frozen and in no group"});
}

TEST(Partitioned, PlaceholderThatNothingExplains) {
  ExpectUnexplained("norm.weight", "embed.weight");  // Two parameters that share one say nothing of a third.
  ExpectUnexplained("head.weight", "shift");
}

std::set<std::string> FilesOfBuffers(const Storage& storage) {
  std::set<std::string> files;
  for (const Shard& shard : storage.shards) {
    if (shard.kind != TensorKind::kBuffer) continue;
    const Buffer& buffer = storage.buffer(storage.buffer_set(shard.states).front().buffer);
    for (const BufferPart& part : buffer.parts) files.insert(storage.file(part.record).path);
  }
  return files;
}

TEST(Partitioned, BuffersAreThoseOfPartition0) {
  const Storage storage = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(kFrozen)).inventory.storage;
  EXPECT_THAT(FilesOfBuffers(storage), ::testing::ElementsAre(Model(0)));
}

TEST(Partitioned, BuffersAndClientStateAreThoseOfThePartitionThatIsBelieved) {
  CheckpointCopy copy(kFrozen);
  copy.Set(Model(2), {"note"}, pytorch::MakeText("another"));
  for (const auto& [preference, model, note] :
       {std::tuple("", 0, "'trained by zero3_frozen_dp4'"), std::tuple("dp=2", 2, "'another'")}) {
    auto checkpoint = Read(copy, llvm::cantFail(ParseRankPreference(preference)));
    ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
    EXPECT_THAT(FilesOfBuffers(checkpoint->inventory.storage), ::testing::ElementsAre(Model(model)));
    EXPECT_EQ(pytorch::Print(*FindEntry(checkpoint->training.ranks.front().client, "note")), note);
    const std::string said = fmt::format("`note` in the client state is {} in `{}` and", note, Model(model));
    EXPECT_THAT(checkpoint->inventory.remarks, ::testing::Contains(HasSubstr(said)));
  }
}

TEST(Partitioned, BeforeTheFirstStep) {
  CheckpointCopy copy(kFixture);
  for (int p = 0; p < 4; ++p) copy.Set(Optimizer(p), Inner({"state"}), pytorch::MakeDict({}));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  for (const LogicalTensor& tensor : testing::WholeTensors(checkpoint->inventory)) {
    ASSERT_EQ(tensor.states.size(), 1u) << tensor.name;
    EXPECT_EQ(tensor.states.front().name, "fp32");
  }
}

}  // namespace
}  // namespace ucp
