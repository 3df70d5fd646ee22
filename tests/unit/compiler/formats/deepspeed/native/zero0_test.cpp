// Checkpoints without ZeRO: which parameter is which follows from the module, or is refused.
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
using ::testing::HasSubstr;
using testing::Read;

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kPlain = "zero0_fp32";
const std::string kFused = "zero0_fused_fp16";
const std::string kUnfused = "zero0_unfused_bf16";

// Gives the value at one path to another.
void Move(CheckpointCopy& copy, const std::vector<std::string>& from, const std::vector<std::string>& to) {
  copy.Edit(kModel, [&](const pytorch::ValuePtr& root) {
    pytorch::ValuePtr value = root;
    for (const std::string& key : from) value = pytorch::Find(*value, key);
    return testing::Replaced(root, to, value);
  });
}

// Adds a tensor to the module that lies where another one does, from its element `first` on.
void AddView(CheckpointCopy& copy, const std::string& of, const std::string& name,
             const std::vector<std::int64_t>& sizes, std::int64_t first) {
  copy.Edit(kModel, [&](const pytorch::ValuePtr& root) {
    const pytorch::Value& module = *pytorch::Find(*root, "module");
    pytorch::Tensor tensor = *pytorch::Find(module, of)->As<pytorch::Tensor>();
    tensor.sizes = sizes;
    tensor.strides = {1};
    tensor.offset += first;
    return testing::Replaced(root, std::vector<std::string>{"module", name}, pytorch::MakeTensor(std::move(tensor)));
  });
}

// Of a tensor that there is.
TensorKind KindOf(const Checkpoint& checkpoint, const std::string& tensor) {
  for (const Shard& shard : checkpoint.inventory.storage.shards) {
    if (shard.tensor == tensor) return shard.kind;
  }
  ADD_FAILURE() << tensor;
  return TensorKind::kBuffer;
}

TEST(Whole, ShapesThatTwoGroupsAskFor) {
  CheckpointCopy copy(kPlain);
  std::vector<pytorch::ValuePtr> without_last;
  for (std::int64_t i = 6; i < 15; ++i) without_last.push_back(MakeInteger(i));
  copy.Set(kModel, {"optimizer", "param_groups", "1", "params"}, MakeList(std::move(without_last)));
  copy.Set(kModel, {"optimizer", "param_groups", "2", "params"}, MakeList({MakeInteger(15), MakeInteger(16)}));
  ExpectFailure(copy, ErrorCode::kUnsupported,
                {kModel, "does not say which parameter is which", "groups 1 and 2 both have parameters of [33]"});
}

TEST(Whole, ParametersInAnotherOrder) {
  CheckpointCopy copy(kPlain);
  copy.Set(kModel, {"optimizer", "param_groups", "0", "params"},
           MakeList({MakeInteger(1), MakeInteger(0), MakeInteger(2), MakeInteger(3), MakeInteger(4), MakeInteger(5)}));
  ExpectFailure(copy, ErrorCode::kUnsupported, {"group 0 does not have its parameters in the module's order"});
}

// A view of the first elements of another parameter, which shapes do not tell from two that are trained.
TEST(Whole, FrozenParametersOfATrainedShape) {
  CheckpointCopy copy(kUnfused);
  AddView(copy, "stem.weight", "another.bias", {47}, 0);
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(KindOf(*checkpoint, "another.bias"), TensorKind::kFrozen);
  EXPECT_EQ(KindOf(*checkpoint, "blocks.1.up.bias"), TensorKind::kParameter);
  copy.Set(kModel, {"module", "blocks.1.up.bias"}, nullptr);
  ExpectFailure(copy, ErrorCode::kUnsupported,
                {"and by values no parameter has the values of a master of group 1, of [47]"});
}

TEST(Whole, MoreParametersThanTheModuleHas) {
  CheckpointCopy copy(kUnfused);
  copy.Set(kModel, {"module", "blocks.1.up.bias"}, nullptr);
  ExpectFailure(copy, ErrorCode::kUnsupported, {"group 1 has 2 parameters of [47] or more, and the module 1"});
}

TEST(Whole, BeforeTheFirstStepShapesAreNotKnown) {
  CheckpointCopy copy(kPlain);
  copy.Set(kModel, {"optimizer", "state"}, pytorch::MakeDict({}));
  ExpectFailure(copy, ErrorCode::kUnsupported, {"there is no state of parameter 0 of group 0"});
}

// As many parameters as the module has are all of them, in its order.
TEST(Whole, BeforeTheFirstStepOneGroupHasTheWholeModule) {
  CheckpointCopy copy(kPlain);
  const auto put = [&](std::int64_t parameters) {
    copy.Edit(kModel, [&](const pytorch::ValuePtr& root) {
      const pytorch::ValuePtr groups = pytorch::Find(*pytorch::Find(*root, "optimizer"), "param_groups");
      std::vector<pytorch::ValuePtr> numbers;
      for (std::int64_t i = 0; i < parameters; ++i) numbers.push_back(MakeInteger(i));
      pytorch::ValuePtr group = testing::Replaced(pytorch::Items(*groups)->front(), std::vector<std::string>{"params"},
                                                  MakeList(std::move(numbers)));
      return testing::Replaced(root, std::vector<std::string>{"optimizer", "param_groups"}, MakeList({group}));
    });
  };
  copy.Set(kModel, {"optimizer", "state"}, pytorch::MakeDict({}));
  put(16);
  ExpectFailure(copy, ErrorCode::kUnsupported, {"there is no state of parameter 0 of group 0"});
  put(17);
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  for (const std::string tensor : {"embed.weight", "blocks.0.up.bias", "tone"}) {
    EXPECT_EQ(KindOf(*checkpoint, tensor), TensorKind::kParameter);
  }
}

TEST(Whole, ViewsThatDoNotMakeUpAGroup) {
  CheckpointCopy copy(kFused);
  copy.Set(kModel, {"module", "blocks.1.up.bias"}, nullptr);
  ExpectFailure(copy, ErrorCode::kUnsupported, {"the master of group 1 has 364 elements, and 0 vectors of the module"});
}

// With another view before or among them, those of a vector do not make it up, and values tell.
TEST(Whole, ViewsThatOthersLieAmong) {
  CheckpointCopy copy(kFused);
  AddView(copy, "embed.weight", "another.bias", {47}, 1);
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(KindOf(*checkpoint, "another.bias"), TensorKind::kFrozen);
  EXPECT_EQ(KindOf(*checkpoint, "embed.weight"), TensorKind::kParameter);
}

TEST(Whole, ValuesThatTwoParametersHave) {
  CheckpointCopy prefix(kFused);
  AddView(prefix, "embed.weight", "another.bias", {47}, 0);
  ExpectFailure(prefix, ErrorCode::kUnsupported,
                {"the master of group 0", "and by values", "begin with the same values"});
  CheckpointCopy whole(kFused);
  AddView(whole, "embed.weight", "another.bias", {101 * 33}, 0);
  ExpectFailure(whole, ErrorCode::kUnsupported,
                {"`embed.weight` and `another.bias` have the same values, and group 0 has one of them"});
}

TEST(Whole, SecondNamesAreAliases) {
  CheckpointCopy copy(kFused);
  Move(copy, {"module", "embed.weight"}, {"module", "second.weight"});
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_THAT(checkpoint->inventory.aliases, ::testing::ElementsAre(::testing::Pair("second.weight", "embed.weight")));
}

TEST(Whole, WithoutAnOptimizer) {
  CheckpointCopy copy(kPlain);
  copy.Set(kModel, {"optimizer"}, pytorch::MakeNone());
  ExpectWeightsAlone(copy, {kModel, "no whole optimizer"});
}

TEST(Whole, ListsThatDoNotFit) {
  CheckpointCopy copy(kUnfused);
  copy.Set(kModel, {"optimizer", "fp32_groups"}, MakeList({}));
  ExpectFailure(copy, ErrorCode::kBadData, {kModel, "has 2 `param_groups` and masters for 0"});
  copy.Set(kModel, {"optimizer", "fp32_groups"}, MakeList({MakeList({}), MakeList({})}));
  ExpectFailure(copy, ErrorCode::kBadData, {kModel, "group 0 has 0 masters and steps 5 tensors"});
}

TEST(Whole, ParametersOfDifferentSteps) {
  CheckpointCopy copy(kPlain);
  copy.Set(kModel, {"optimizer", "state", "2", "step"}, MakeInteger(9));
  ExpectFailure(copy, ErrorCode::kBadData, {"the optimizer's step is 4", "and 9 in"});
}

TEST(Whole, StatesOfAnotherShapeAreSetAside) {
  CheckpointCopy copy(kPlain);
  copy.Set(kModel, {"optimizer", "state", "0", "row"}, pytorch::MakeWholeTensor("0", DType::kFloat32, {3}));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ASSERT_EQ(checkpoint->training.loose_states.size(), 1U);
  const LooseState& loose = checkpoint->training.loose_states.front();
  EXPECT_THAT(loose.sentence, HasSubstr("`row` of parameter"));
  EXPECT_THAT(loose.sentence, HasSubstr("is a tensor of [3], not of [101, 33]"));
  EXPECT_EQ(loose.belongs_to.sizes, (std::vector<std::int64_t>{101, 33}));
}

}  // namespace
}  // namespace ucp
