#include "tests/unit/compiler/verifier/verdict.h"

#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp::oracle {

using testing::HasSubstr;

namespace {

std::string VerdictOf(const Plan& plan, unsigned threads) {
  llvm::Error error = VerifyPlan(plan, threads);
  return error ? TakeFailure(std::move(error)).message : "sound";
}

}  // namespace

std::string Verdict(const Plan& plan) {
  const std::string verdict = VerdictOf(plan, 1);
  EXPECT_EQ(VerdictOf(plan, 3), verdict);
  return verdict;
}

void ExpectRefused(const std::function<Plan()>& make, const std::vector<Mutation>& mutations) {
  for (const Mutation& mutation : mutations) {
    Plan plan = make();
    mutation.apply(plan);
    std::string verdict = Verdict(plan);
    EXPECT_THAT(verdict, HasSubstr("the plan is not sound: ")) << mutation.name;
    EXPECT_THAT(verdict, HasSubstr(mutation.phrase)) << mutation.name;
  }
}

PlanRead& ReadOf(Plan& plan, std::size_t tensor, ReadRole role, std::size_t which) {
  for (PlanRead& read : plan.reads) {
    if (read.tensor.index() == tensor && read.role == role && which-- == 0) return read;
  }
  ADD_FAILURE() << "no such read";
  return plan.reads[0];
}

}  // namespace ucp::oracle
