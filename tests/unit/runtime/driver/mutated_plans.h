// Plan files that somebody has changed: a field, a row or a meaning of the plan, or a byte of the file, with an
// envelope that fits.
#pragma once

#include <string>

#include "compiler/plan/codec.h"
#include "tests/unit/compiler/verifier/mutation.h"

namespace ucp {

struct MutatedPlan {
  std::string what;
  std::string file;
};

// The structure: one or two things of the plan or of its inputs.
MutatedPlan MutateTables(const PlanWithInputs& honest, oracle::Random& random);

// One to three bytes of the FlatBuffer.
MutatedPlan MutateBytes(const std::string& honest_file, oracle::Random& random);

}  // namespace ucp
