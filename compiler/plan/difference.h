// Finds the first difference of two plans, for messages.
#pragma once

#include <optional>
#include <string>

#include "compiler/plan/plan.h"

namespace ucp {

struct PlanDifference {
  std::string what;    // "entry 17 of the reads", "the number of target files"
  std::string first;   // As it is in the one and in the other, of a length for messages; "nothing" for an entry that
  std::string second;  // one of them lacks.
};

// Returns the first difference, and nothing if there is none. Every id of both plans must point into its table, as
// VerifyPlan() checks. Versions and remarks do not count.
std::optional<PlanDifference> FirstDifference(const Plan& first, const Plan& second);

}  // namespace ucp
