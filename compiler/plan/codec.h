// A plan as a file: a FlatBuffer (plan.fbs) with its own length and checksum around it (docs/plan.md). The same plan
// has the same bytes. A plan file is untrusted input: decoding checks the envelope, the FlatBuffer, and that every id
// points into its table; run VerifyPlan() on the result before anything else.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <string_view>

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_inputs.h"

namespace ucp {

// `inputs` are for a plan that others will run; null: left out.
llvm::Expected<std::string> EncodePlan(const Plan& plan, const PlanInputs* inputs = nullptr);
// ContentHash of these bytes without inputs: the name of a plan, in manifests and journals.
llvm::Expected<std::string> HashOfPlan(const Plan& plan);
llvm::Expected<Plan> DecodePlan(std::string_view bytes);

struct PlanWithInputs {
  Plan plan;
  std::optional<PlanInputs> inputs;  // Nothing if they were left out, as earlier versions did.
};
llvm::Expected<PlanWithInputs> DecodePlanWithInputs(std::string_view bytes);

}  // namespace ucp
