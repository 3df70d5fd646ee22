// Parts of the verifier that look at tables only: V1 (elements of source buffers), V2 (bytes of target files), V4
// (elements of tensors, places of written shards), V7 (casts) and V8 (archives).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"

namespace ucp {

// No place that holds optimizer state is copied twice. Weights may be: a module can hold one storage
// under two names.
[[nodiscard]] llvm::Error VerifySourceExtents(const Plan& plan);
[[nodiscard]] llvm::Error VerifyTargetBytes(const Plan& plan);
[[nodiscard]] llvm::Error VerifyElements(const Plan& plan);
[[nodiscard]] llvm::Error VerifyPlaces(const Plan& plan);
[[nodiscard]] llvm::Error VerifyCasts(const Plan& plan);
// Each tensor of the target's own, put together of others, is all of its pieces and nothing else.
[[nodiscard]] llvm::Error VerifyOwnTensors(const Plan& plan);
[[nodiscard]] llvm::Error VerifyArchives(const Plan& plan);

}  // namespace ucp
