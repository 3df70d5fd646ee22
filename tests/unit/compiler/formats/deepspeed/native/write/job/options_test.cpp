// Settings that a strategy leaves open are as `ds_config` and the optimizer's own settings have them.
#include "compiler/formats/deepspeed/native/write/job/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/native/write/job/adagrad.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using ::testing::HasSubstr;

// A source with one group of these settings.
TrainingState Source(std::vector<Entry> zero, const char* type, std::vector<Entry> group = {}) {
  TrainingState training;
  training.ranks.resize(1);
  training.groups.push_back({MakeDict(std::move(group)), nullptr, {}});
  std::vector<Entry> config = {{MakeText("zero_optimization"), MakeDict(std::move(zero))}};
  if (type != nullptr) config.push_back({MakeText(type), MakeDict({{MakeText("enabled"), MakeBool(true)}})});
  training.engine = {{MakeText("ds_config"), MakeDict(std::move(config))}};
  return training;
}

Entry Stage(std::int64_t stage) { return {MakeText("stage"), MakeInteger(stage)}; }

llvm::Expected<WriteOptions> Read(const std::string& strategy, const TrainingState& training) {
  UCP_ASSIGN_OR_RETURN(Strategy parsed, ParseStrategy(strategy));
  return ReadWriteOptions(parsed, training);
}
WriteOptions Options(const std::string& strategy, const TrainingState& training) {
  auto options = Read(strategy, training);
  if (options) return *options;
  ADD_FAILURE() << TakeFailure(options.takeError()).message;
  return {};
}
std::string Refusal(const std::string& strategy, const TrainingState& training) {
  return testing::FailureOf(Read(strategy, training)).message;
}

TEST(WriteOptions, SizeOfSubGroups) {
  const Entry whole{MakeText("sub_group_size"), MakeInteger(700)};
  const Entry decimal{MakeText("sub_group_size"), MakeDouble(1e7)};  // As JSON has it.
  EXPECT_EQ(Options("deepspeed", Source({Stage(3)}, "bf16")).sub_group_size, 1'000'000'000);
  EXPECT_EQ(Options("deepspeed", Source({Stage(3), whole}, "bf16")).sub_group_size, 700);
  EXPECT_EQ(Options("deepspeed", Source({Stage(3), decimal}, "bf16")).sub_group_size, 10'000'000);
  EXPECT_EQ(Options("deepspeed:sub_group_size=9", Source({Stage(3), whole}, "bf16")).sub_group_size, 9);
  const Entry none{MakeText("sub_group_size"), MakeInteger(0)};
  EXPECT_THAT(Refusal("deepspeed", Source({Stage(3), none}, "bf16")), HasSubstr("`zero_optimization.sub_group_size`"));
  EXPECT_THAT(Refusal("deepspeed:zero=2,sub_group_size=9", Source({Stage(3)}, "bf16")), HasSubstr("zero=3 only"));
}

TEST(WriteOptions, TheWrapperFollowsTheOptimizer) {
  const Entry fused{MakeText("bias_correction"), MakeBool(true)};
  const Entry amsgrad{MakeText("amsgrad"), MakeBool(false)};
  EXPECT_EQ(Options("deepspeed", Source({Stage(0)}, "fp16", {fused})).wrapper, WholeWrapper::kFused);
  EXPECT_EQ(Options("deepspeed", Source({Stage(0)}, "bf16", {fused})).wrapper, WholeWrapper::kFused);
  EXPECT_EQ(Options("deepspeed", Source({Stage(0)}, "fp16", {fused, amsgrad})).wrapper, WholeWrapper::kUnfused);
  EXPECT_EQ(Options("deepspeed", Source({Stage(0)}, "bf16", {amsgrad})).wrapper, WholeWrapper::kUnfused);
  EXPECT_EQ(Options("deepspeed", Source({Stage(0)}, nullptr, {fused})).wrapper, WholeWrapper::kNone);
  EXPECT_EQ(Options("deepspeed:optimizer=unfused", Source({Stage(0)}, "fp16", {fused})).wrapper,
            WholeWrapper::kUnfused);
  EXPECT_EQ(Options("deepspeed:zero=1", Source({Stage(0)}, "fp16", {fused})).wrapper, WholeWrapper::kNone);
}

TEST(WriteOptions, SettingsOfFlatGroupsAreNotAskedElsewhere) {
  const Entry dealt{MakeText("round_robin_gradients"), MakeBool(true)};
  EXPECT_TRUE(Options("deepspeed:zero=2", Source({Stage(2), dealt}, "bf16")).round_robin);
  EXPECT_FALSE(Options("deepspeed:zero=3", Source({Stage(2), dealt}, "bf16")).round_robin);
  EXPECT_FALSE(Options("deepspeed:zero=0", Source({Stage(2), dealt}, "bf16")).round_robin);
}

TEST(WriteOptions, WhatDeepSpeedDoesNotRunOrWeDoNotWrite) {
  const Entry shared{MakeText("mics_shard_size"), MakeInteger(4)};
  EXPECT_THAT(Refusal("deepspeed", Source({Stage(3), shared}, "bf16")), HasSubstr("`mics_shard_size` 4"));
  const Entry swapped{MakeText("offload_optimizer"), MakeDict({{MakeText("device"), MakeText("nvme")}})};
  for (int stage = 1; stage <= 3; ++stage) {
    EXPECT_THAT(Refusal("deepspeed", Source({Stage(stage), swapped}, "bf16")), HasSubstr("`offloaded_tensors`"));
  }
  EXPECT_EQ(Options("deepspeed", Source({Stage(0), swapped}, "bf16")).stage, 0);
  EXPECT_EQ(Options("deepspeed", Source({Stage(2), shared}, "bf16")).stage, 2);
  EXPECT_THAT(Refusal("deepspeed", Source({Stage(7)}, "bf16")), HasSubstr("zero=0 to zero=3"));
  EXPECT_THAT(Refusal("deepspeed:pp=2,zero=2", Source({}, "bf16")), HasSubstr("zero=2 in a pipeline"));
  EXPECT_EQ(Options("deepspeed:pp=2,zero=0", Source({}, "fp16")).stage, 0);
  EXPECT_THAT(Refusal("deepspeed:pp=2,zero=0", Source({}, "bf16")), HasSubstr("fails to load it"));
}

TEST(WriteOptions, AdagradRunsWithOneGroupBelowStage3) {
  const Entry decay{MakeText("lr_decay"), MakeInteger(0)}, start{MakeText("initial_accumulator_value"), MakeInteger(0)};
  auto refusal = [](int stage, const TrainingState& training, bool bf16_optimizer = false) {
    WriteOptions options;
    options.stage = stage;
    options.bf16_optimizer = bf16_optimizer;
    llvm::Error error = CheckAdagradRuns(training, options);
    return error ? TakeFailure(std::move(error)).message : "";
  };
  TrainingState one = Source({}, "bf16", {decay, start}), two = one;
  two.groups.push_back(two.groups.front());
  EXPECT_THAT(refusal(3, one), HasSubstr("zero=3: DeepSpeed loads no checkpoint of PyTorch's Adagrad"));
  EXPECT_THAT(refusal(2, two), HasSubstr("zero=2: the source has 2 groups of PyTorch's Adagrad"));
  EXPECT_EQ(refusal(2, one), "");
  EXPECT_EQ(refusal(0, two), "");
  EXPECT_EQ(refusal(1, two, true), "");
  TrainingState other = Source({}, "bf16", {{MakeText("eps"), MakeInteger(0)}});
  other.groups.push_back(other.groups.front());
  EXPECT_EQ(refusal(3, other), "");
}

TEST(WriteOptions, FrozenParametersAreExcludedAsTheSourceHasIt) {
  TrainingState source = Source({Stage(2)}, "bf16");
  EXPECT_FALSE(Options("deepspeed", source).exclude_frozen);
  EXPECT_TRUE(Options("deepspeed:exclude_frozen=true", source).exclude_frozen);
  EditState(source).excludes_frozen = true;
  EXPECT_TRUE(Options("deepspeed", source).exclude_frozen);
  EXPECT_FALSE(Options("deepspeed:exclude_frozen=false", source).exclude_frozen);
}

}  // namespace
}  // namespace ucp::deepspeed
