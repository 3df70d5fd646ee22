// A plan as a file: a FlatBuffer (plan.fbs) with its own length and checksum around it (docs/plan.md). The same plan
// has the same bytes. A plan file is untrusted input: decoding checks the envelope, the FlatBuffer, and that every id
// points into its table; run VerifyPlan() on the result before anything else.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>

#include "compiler/plan/plan.h"

namespace ucp {

llvm::Expected<std::string> EncodePlan(const Plan& plan);
// ContentHash of these bytes: the name of a plan, in manifests and journals.
llvm::Expected<std::string> HashOfPlan(const Plan& plan);
llvm::Expected<Plan> DecodePlan(std::string_view bytes);

}  // namespace ucp
