// A checkpoint's layout where the user names no spec. In this order: without tensor parallelism every tensor is whole;
// the checkpoint's own metadata, if it describes every tensor, since it was written by the engine that cut them; a spec
// of the catalogue, if one fits and the metadata does not contradict it. Otherwise nothing is decided, and the error
// says which tensor is open and where to declare it.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/describe/bound_source.h"

namespace ucp {

// Where every tensor is whole: no tensor parallelism.
[[nodiscard]] llvm::Error LayOutWhole(const SourceRequest& request, BoundSource& phase);

// Where tensors are cut. A remark of the inventory says what was used, and why.
[[nodiscard]] llvm::Error LayOutWithoutSpec(const SourceRequest& request, BoundSource& phase);

}  // namespace ucp
