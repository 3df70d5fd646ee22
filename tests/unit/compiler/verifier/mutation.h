// Random damage to a plan: every kind of number, id and row that a plan file holds can be made wrong.
#pragma once

#include <string>

#include "compiler/plan/plan.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {

// Changes one thing and says what.
std::string Damage(Plan& plan, Random& random);

// If the verifier accepts `plan`, then its copies must bring every element to where it says, each once and nothing
// else. Empty: so it is, or the plan was refused.
std::string WronglyAccepted(const Plan& plan, bool& refused);

}  // namespace ucp::oracle
