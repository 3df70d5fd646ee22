// A plan file against the plan that is made again, and the message on a difference.
#include "runtime/driver/plan_to_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/support/version.h"
#include "tests/unit/runtime/driver/plan_judge.h"

namespace ucp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const PlanJudge& Judge() {
  static const PlanJudge judge(
      {.fixture = "gpt_pp2_tp2_dp2", .spec = "megatron_deepspeed_gpt", .target = "deepspeed:tp=1,pp=2,dp=2,zero=1"});
  return judge;
}

std::string Refusal(const std::function<void(PlanWithInputs&)>& change, bool is_trusted = false) {
  PlanWithInputs file = Judge().honest();
  change(file);
  const std::string bytes = llvm::cantFail(EncodePlan(file.plan, file.inputs ? &*file.inputs : nullptr));
  return Judge().Judge(bytes, is_trusted).refusal;
}

TEST(PlanToRunTest, RunsAnHonestPlan) {
  EXPECT_EQ(Refusal([](PlanWithInputs&) {}), "");
  EXPECT_EQ(Refusal([](PlanWithInputs&) {}, true), "");
}

// All of these are sound, and do what they say.
TEST(PlanToRunTest, TellsWhatDiffers) {
  struct Case {
    const char* words;
    std::function<void(Plan&)> change;
  };
  const std::vector<Case> cases = {
      {"of the reads is unused `",
       [](Plan& p) {
         for (PlanRead& read : p.reads) {
           if (read.role != ReadRole::kCompare && read.role != ReadRole::kCheckRounding) continue;
           read.role = ReadRole::kUnused;
           read.reason = "why not";
         }
         std::stable_sort(p.reads.begin(), p.reads.end(), [](const PlanRead& a, const PlanRead& b) {
           return std::tuple(a.tensor, a.term, a.role) < std::tuple(b.tensor, b.term, b.role);
         });
       }},
      {"of the buffer sets of the source is `exp_avg` in buffer",
       [](Plan& p) {
         for (BufferSet& set : p.source.buffer_sets) {
           if (set.size() > 1) std::swap(set[0].buffer, set[1].buffer);
         }
       }},
      {"of the records of the source is", [](Plan& p) { p.source.records[3].crc32 = std::nullopt; }},
      {"by nobody.ucp:1 in the file, and parameter `3.input_layernorm.bias` [16]",
       [](Plan& p) { p.tensors[0].declared_at = "nobody.ucp:1"; }},
      {"of the readers is", [](Plan& p) { p.readers = {}; }},
      {"entry 0 of the directories is nothing in the file, and `global_step4` where",
       [](Plan& p) { p.directories.clear(); }},
      {"the hash of the spec is 0123 in the file", [](Plan& p) { p.spec_hash = "0123"; }},
      {"the format of the source is universal in the file, and deepspeed where",
       [](Plan& p) { p.source_format = "universal"; }},
      {"the mesh of the target is", [](Plan& p) { p.target_mesh.axes.clear(); }},
      {"entry 0 of the decisions is `lr`: 1 in `a` is believed, and not 2 in `b`, 0 elements in the file, and nothing",
       [](Plan& p) { p.decisions = {{"`lr`", "1", "a", "2", "b", 0}}; }},
  };
  for (const Case& one : cases) {
    auto change = [&](PlanWithInputs& file) { one.change(file.plan); };
    EXPECT_THAT(Refusal(change),
                AllOf(HasSubstr("/plan` is not the plan that is made of this checkpoint: "), HasSubstr(one.words),
                      HasSubstr("make the plan again with `ucpc plan`, or run it as it is with trust_plan")));
  }
}

// Nothing that it says differs, and yet it is another plan.
TEST(PlanToRunTest, TellsThatOnlyTheEncodingDiffers) {
  auto change = [](PlanWithInputs& file) {
    file.plan.readers = ReadByAll(file.plan.target.files.size());
    file.plan.readers.ranks = 3;
  };
  PlanJudge judge({.fixture = "zero2_dp2", .spec = "", .target = "universal"});
  PlanWithInputs file = judge.honest();
  change(file);
  const std::string bytes = llvm::cantFail(EncodePlan(file.plan, &*file.inputs));
  EXPECT_THAT(judge.Judge(bytes, false).refusal, HasSubstr("its encoding is "));
}

TEST(PlanToRunTest, VersionsAndRemarksDoNotMatter) {
  EXPECT_EQ(Refusal([](PlanWithInputs& file) { file.plan.remarks = {"buy more memory"}; }), "");
  EXPECT_EQ(Refusal([](PlanWithInputs& file) { file.plan.tool_version = "0.0.9"; }), "");
  EXPECT_THAT(Refusal([](PlanWithInputs& file) {
                file.plan.tool_version = "0.0.9";
                file.plan.directories.clear();
              }),
              HasSubstr(std::string("(the file is by ucp 0.0.9, and this is ucp ") + kVersion + ")"));
}

// Plans of versions that did not write down what was asked for.
TEST(PlanToRunTest, PlansWithoutInputsAreTrustedOrNot) {
  auto change = [](PlanWithInputs& file) { file.inputs.reset(), file.plan.tool_version = "0.0.9"; };
  EXPECT_THAT(Refusal(change),
              AllOf(HasSubstr("is by ucp 0.0.9 and does not say what it was made from"), HasSubstr("--trust-plan")));
  EXPECT_EQ(Refusal(change, true), "");
}

// The request comes from the same hand as the plan.
TEST(PlanToRunTest, InputsThatGiveNoPlanAreTold) {
  const char* kNone = "does not give a plan of this checkpoint: ";
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->target = "nonsense"; }),
              AllOf(HasSubstr(kNone), HasSubstr("nonsense")));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->set = {"layers=9"}; }),
              AllOf(HasSubstr(kNone), HasSubstr("layers")));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->set = {"layers"}; }), HasSubstr(kNone));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->spec.front().text = "ucp 7\n"; }),
              AllOf(HasSubstr(kNone), HasSubstr("megatron_deepspeed_gpt.ucp:1:")));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->spec.front().text += "\n// changed\n"; }),
              HasSubstr("the hash of the spec is"));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->target = "universal"; }),
              HasSubstr("the format of the target is deepspeed in the file, and universal where"));
  EXPECT_THAT(Refusal([](PlanWithInputs& file) { file.inputs->trusts_replicas = true; }), HasSubstr("of the reads is"));
}

}  // namespace
}  // namespace ucp
