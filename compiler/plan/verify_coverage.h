// Parts of the verifier that look at tables only: V2 (bytes of target files) and V4 (elements of tensors).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"

namespace ucp {

[[nodiscard]] llvm::Error VerifyTargetBytes(const Plan& plan);
[[nodiscard]] llvm::Error VerifyElements(const Plan& plan);

}  // namespace ucp
