// From an affine map back to shape arithmetic.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/infer/decide.h"
#include "compiler/layout/affine_map.h"

namespace ucp {

// Fails where the map contradicts the tensor's shapes, leaves an element out, or holds positions that no product of one
// selection for each dimension is.
llvm::Expected<Reading> LiftMap(const AffineMap& map, const ObservedTensor& tensor);

}  // namespace ucp
