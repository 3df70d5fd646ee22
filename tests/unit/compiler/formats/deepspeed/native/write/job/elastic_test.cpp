// The form of the states of stages 1 and 2, and the origin of the settings that an elastic checkpoint lacks.
#include "compiler/formats/deepspeed/native/write/job/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;
using ::testing::HasSubstr;

const Entry kRate{MakeText("lr"), MakeDouble(0.5)};
const Entry kStep{MakeText("step"), MakeInteger(0)};

TrainingState Source(std::vector<Entry> settings, ValuePtr step = MakeInteger(4)) {
  TrainingState training;
  training.groups.push_back({MakeDict(std::move(settings)), std::move(step), {"w"}});
  return training;
}

LogicalTensor Parameter(const std::string& name, DType dtype = DType::kFloat32, const char* second = "exp_avg_sq") {
  return {
      name, TensorKind::kParameter, {2}, {{"exp_avg", dtype}, {second, dtype}, {kMasterState, DType::kFloat32}}, {}};
}

// "listed", "not listed" or the refusal; remarks behind a bar.
std::string FormOf(const TrainingState& training, std::int64_t stage, bool elastic,
                   const LogicalTensor& tensor = Parameter("w"), bool bf16_optimizer = false) {
  WriteOptions options;
  options.stage = stage;
  options.elastic = elastic;
  options.bf16_optimizer = bf16_optimizer;
  std::vector<std::string> remarks;
  if (llvm::Error error = ChooseForm(training, {&tensor, 1}, options, remarks)) {
    return TakeFailure(std::move(error)).message;
  }
  return fmt::format("{}|{}", options.lists_states ? "listed" : "not listed", fmt::join(remarks, "|"));
}

TEST(Elastic, AsTheJobHasIt) {
  EXPECT_EQ(FormOf(Source({kRate}), 2, false), "not listed|");
  EXPECT_EQ(FormOf(Source({kRate}), 2, true), "listed|");
  EXPECT_EQ(FormOf(Source({kRate}, nullptr), 1, true), "listed|");
}

TEST(Elastic, NotWhatItsLoaderGetsWrong) {
  const ValuePtr tensor_step = pytorch::MakeWholeTensor("0", DType::kFloat32, {});
  EXPECT_THAT(FormOf(Source({kRate}, tensor_step), 2, true), HasSubstr("not listed|the optimizer's states are in the"));
  EXPECT_THAT(FormOf(Source({kRate}), 2, true, Parameter("w", DType::kBFloat16)),
              HasSubstr("float32 of `exp_avg`, which is bfloat16"));
  EXPECT_THAT(FormOf(Source({kRate}), 2, true, Parameter("a.deepspeed_moe.experts.deepspeed_experts.0.w")),
              HasSubstr("the ranks that share experts"));
}

TEST(Elastic, WithoutSettingsNoOtherFormLoads) {
  EXPECT_THAT(FormOf(Source({}), 2, false), HasSubstr("listed|the source, an elastic checkpoint"));
  EXPECT_THAT(FormOf(Source({kStep}), 1, true), HasSubstr("a job that loads it keeps its own"));
  EXPECT_THAT(FormOf(Source({}), 3, false), HasSubstr("zero=3 wants them; take zero=1 or zero=2"));
  EXPECT_THAT(FormOf(Source({}), 3, false), HasSubstr("by ds_config, or convert to `universal`"));
  TrainingState two_groups = Source({});
  two_groups.groups.push_back(two_groups.groups.front());
  EXPECT_THAT(FormOf(two_groups, 3, false), HasSubstr("with optimizer=zero, or convert to `universal`"));
  EXPECT_THAT(FormOf(Source({}), 0, false), HasSubstr("zero=0 wants them"));
  EXPECT_THAT(FormOf(Source({}), 1, false, Parameter("w"), true), HasSubstr("BF16_Optimizer wants them"));
  EXPECT_THAT(FormOf(Source({}, pytorch::MakeWholeTensor("0", DType::kFloat32, {})), 2, true),
              HasSubstr("do not load: DeepSpeed pads steps that are tensors"));
}

std::vector<Entry> Adam() {
  return {kRate,
          {MakeText("betas"), pytorch::MakeList({MakeDouble(0.25), MakeDouble(0.5)})},
          {MakeText("eps"), MakeDouble(0.125)},
          {MakeText("weight_decay"), MakeDouble(0.0)}};
}

EngineConfig Job(const char* type, std::vector<Entry> params, std::vector<Entry> zero = {}) {
  return {"job.json", MakeDict({{MakeText("optimizer"), MakeDict({{MakeText("type"), MakeText(type)},
                                                                  {MakeText("params"), MakeDict(std::move(params))}})},
                                {MakeText("zero_optimization"), MakeDict(std::move(zero))}})};
}

// The settings of the first group afterwards, or the refusal.
std::string SettingsBy(const EngineConfig& job, TrainingState training, std::size_t remarks_expected,
                       const LogicalTensor& tensor = Parameter("w")) {
  std::vector<std::string> remarks;
  if (llvm::Error error = TakeSettingsOfJob(job, {&tensor, 1}, training, remarks))
    return TakeFailure(std::move(error)).message;
  EXPECT_EQ(remarks.size(), remarks_expected);
  return pytorch::Print(*training.groups.front().hyper_parameters);
}

TEST(Elastic, TheJobsOptimizerCounts) {
  EXPECT_EQ(SettingsBy(Job("AdamW", Adam()), Source({kStep}), 1),
            "{'lr': 0.5, 'bias_correction': True, 'betas': [0.25, 0.5], 'eps': 0.125, 'weight_decay': 0.0, 'step': 0}");
  EXPECT_EQ(SettingsBy(Job("AdamW", Adam()), Source({kRate}), 0), "{'lr': 0.5}");
}

TEST(Elastic, WhatTheJobLeavesOpenIsNotGuessed) {
  std::vector<Entry> open = Adam();
  open.pop_back();
  EXPECT_THAT(SettingsBy(Job("AdamW", open), Source({}), 0),
              HasSubstr("`optimizer.params.weight_decay` in `job.json` is missing"));
  open.push_back({MakeText("weight_decay"), MakeText("auto")});
  EXPECT_THAT(SettingsBy(Job("AdamW", open), Source({}), 0), HasSubstr("is 'auto'"));
}

TEST(Elastic, OtherOptimizersOfAJobAreLeftAlone) {
  const Entry on_cpu{MakeText("offload_optimizer"), MakeDict({{MakeText("device"), MakeText("cpu")}})};
  std::vector<Entry> of_torch = Adam();
  of_torch.push_back({MakeText("torch_adam"), MakeBool(true)});
  TrainingState two_groups = Source({});
  two_groups.groups.push_back(two_groups.groups.front());
  EXPECT_EQ(SettingsBy(Job("SGD", Adam()), Source({}), 0), "{}");
  EXPECT_EQ(SettingsBy(Job("Adam", of_torch), Source({}), 0), "{}");
  EXPECT_EQ(SettingsBy(Job("Adam", Adam(), {on_cpu}), Source({}), 0), "{}");
  EXPECT_EQ(SettingsBy(Job("Adam", Adam()), two_groups, 0), "{}");
  EXPECT_EQ(SettingsBy(Job("Adam", Adam()), Source({}), 0, Parameter("w", DType::kFloat32, "sum")), "{}");
  EXPECT_EQ(SettingsBy(Job("Adam", Adam()), Source({}, nullptr), 0), "{}");
}

}  // namespace
}  // namespace ucp::deepspeed
