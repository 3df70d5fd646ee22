// Carries a plan out in memory, one element at a time, and says what is wrong with the result.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/plan/plan.h"
#include "compiler/trial/side.h"

namespace ucp {

// Returns the plan from one side to the other. It has passed the verifier.
llvm::Expected<Plan> PlanBetween(const Side& source, const Side& target);

struct CarriedOut {
  Memory memory;            // The content of the target's records then.
  std::string problem;      // Empty: no step left its records, read a free place, wrote a place twice or compared two
                            // different elements.
  std::int64_t copied = 0;  // Elements.
};

// `memory` is the content of the source's records.
CarriedOut CarryOut(const Plan& plan, const Side& source, const Side& target, const Memory& memory);

// Names the tensor, its line in the spec, the element and the place of the first difference from what the side should
// hold. Empty: there is none.
std::string Difference(const Side& side, const Memory& found);

// "tensor `up.weight` (gpt.ucp:14), element [3, 0]"
std::string Spell(const Layout& layout, std::int64_t element);

}  // namespace ucp
