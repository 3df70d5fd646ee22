// Where two plans differ first.
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

// Every id of both points into its table, as VerifyPlan() sees to. Versions and remarks do not count. Returns nothing
// if there is no difference.
std::optional<PlanDifference> FirstDifference(const Plan& first, const Plan& second);

}  // namespace ucp
