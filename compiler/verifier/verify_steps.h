// Parts of the verifier that look at geometries (V3) and walk the steps (V5).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"

namespace ucp {

[[nodiscard]] llvm::Error VerifyGeometries(const Plan& plan);
[[nodiscard]] llvm::Error VerifySteps(const Plan& plan);

}  // namespace ucp
