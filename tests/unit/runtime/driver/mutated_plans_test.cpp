// Whatever is changed in a plan file: it is refused, or the run writes what the honest plan writes.
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "compiler/plan/difference.h"
#include "tests/unit/runtime/driver/mutated_plans.h"
#include "tests/unit/runtime/driver/plan_judge.h"

namespace ucp {
namespace {

using oracle::Random;

struct Counts {
  int mutants = 0;
  int accepted = 0;
  int differing = 0;
};

// One is a checkpoint without a spec, one is cut by a spec, one has weights that are cast, and in the last one two
// copies contradict each other, so that nothing may be written.
const std::vector<AskedFor> kConversions = {
    {"zero2_dp2", "", "universal"},
    {"gpt_pp2_tp2_dp2", "megatron_deepspeed_gpt", "deepspeed:tp=1,pp=2,dp=2,zero=1"},
    {"frozen_buffers_zero2", "", "safetensors:dtype=fp16"},
    {.fixture = "gpt_pp2_tp2_dp2", .spec = "megatron_deepspeed_gpt", .target = "universal", .contradicts_itself = true},
};

constexpr int kLeast = 40;  // Of each conversion, however slow the machine.

TEST(MutatedPlansTest, AreRefusedOrWriteTheSame) {
  Random random(oracle::TestSeed());
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n",
              static_cast<unsigned long long>(oracle::TestSeed()));
  Counts checked;
  Counts trusted;
  std::map<std::string, int> differing;
  for (const AskedFor& asked : kConversions) {
    SCOPED_TRACE(asked.fixture + " to " + asked.target);
    const PlanJudge judge(asked);
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(oracle::TestSeconds() / 4);
    for (int tried = 0; tried < kLeast || std::chrono::steady_clock::now() < end; ++tried) {
      const MutatedPlan mutant = oracle::Pick(random, 0, 3) == 0 ? MutateBytes(judge.honest_file(), random)
                                                                 : MutateTables(judge.honest(), random);
      if (mutant.file == judge.honest_file()) continue;
      for (Counts* counts : {&checked, &trusted}) {
        const Judgement judgement = judge.Judge(mutant.file, counts == &trusted);
        ++counts->mutants;
        if (!judgement.refusal.empty()) continue;
        ++counts->accepted;
        if (counts == &checked) {
          const auto taken = llvm::cantFail(DecodePlan(mutant.file));
          const auto difference = FirstDifference(taken, judge.honest().plan);
          EXPECT_FALSE(difference) << difference->what << " is " << difference->first;
        }
        if (judgement.difference.empty()) continue;
        ++counts->differing;
        if (counts == &checked) ADD_FAILURE() << "after damage to " << mutant.what << ", " << judgement.difference;
        if (counts == &trusted) ++differing[mutant.what];
      }
    }
  }
  std::printf("%d mutants: %d accepted, %d of them write something else\n", checked.mutants, checked.accepted,
              checked.differing);
  std::printf("with --trust-plan %d accepted, %d of them write something else:\n", trusted.accepted, trusted.differing);
  for (const auto& [what, count] : differing) std::printf("  %4d after damage to %s\n", count, what.c_str());
  EXPECT_GT(trusted.differing, 0);  // Else nothing was tried.
}

}  // namespace
}  // namespace ucp
