#include "tests/unit/runtime/driver/mutated_plans.h"

#include <llvm/Support/Error.h>

#include <array>
#include <utility>

#include "compiler/plan/envelope.h"
#include "tests/unit/runtime/driver/plan_judge.h"

namespace ucp {
namespace {

using oracle::Pick;
using oracle::Random;

// A text that an option could have.
void DamageText(std::string& text, Random& random) {
  constexpr std::array<const char*, 6> kOthers = {"", "universal", "deepspeed:dp=2,zero=1", "safetensors", "x", "tp=2"};
  if (text.empty() || Pick(random, 0, 2) == 0) {
    text = kOthers[static_cast<std::size_t>(Pick(random, 0, std::ssize(kOthers) - 1))];
    return;
  }
  const auto at = static_cast<std::size_t>(Pick(random, 0, std::ssize(text) - 1));
  if (Pick(random, 0, 1) == 0) {
    text.erase(at, 1);
  } else {
    text[at] = static_cast<char>(text[at] ^ 1);
  }
}

void DamageInputs(PlanInputs& inputs, Random& random) {
  switch (Pick(random, 0, 6)) {
    case 0:
      return DamageText(inputs.target, random);
    case 1:
      return DamageText(inputs.tag, random);
    case 2:
      inputs.trusts_replicas = !inputs.trusts_replicas;
      return;
    case 3:
      inputs.drop_states.emplace_back("exp_avg");
      return;
    case 4:
      inputs.set.emplace_back("hidden=4");
      return;
    case 5:
      if (!inputs.spec.empty()) DamageText(inputs.spec.front().text, random);
      return;
    default:
      DamageText(inputs.source_strategy, random);
  }
}

}  // namespace

MutatedPlan MutateTables(const PlanWithInputs& honest, Random& random) {
  PlanWithInputs mutated = honest;
  std::string what;
  for (std::int64_t left = Pick(random, 1, 2); left > 0; --left) {
    what += what.empty() ? "" : " and ";
    if (Pick(random, 0, 15) == 0) {
      DamageInputs(*mutated.inputs, random);
      what += "the inputs";
    } else {
      what += oracle::Damage(mutated.plan, random);
    }
  }
  return {what, llvm::cantFail(EncodePlan(mutated.plan, &*mutated.inputs))};
}

MutatedPlan MutateBytes(const std::string& honest_file, Random& random) {
  std::string file = honest_file;
  for (std::int64_t left = Pick(random, 1, 3); left > 0; --left) {
    const auto at =
        static_cast<std::size_t>(Pick(random, static_cast<std::int64_t>(kPlanEnvelopeBytes), std::ssize(file) - 1));
    file[at] = static_cast<char>(Pick(random, 0, 1) == 0 ? file[at] ^ 1 << Pick(random, 0, 7) : Pick(random, 0, 255));
  }
  return {"bytes", WithTrueEnvelope(std::move(file))};
}

}  // namespace ucp
