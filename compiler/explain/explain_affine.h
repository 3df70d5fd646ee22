// An explanation as the affine maps that DeepSpeed writes into its checkpoints: a spec is their human-writable source.
#pragma once

#include <llvm/Support/raw_ostream.h>

#include "compiler/explain/explain.h"

namespace ucp {

// The entries of `universal_checkpoint_info` for the source's degrees: `affine_map` for parameters that are whole or
// cut over tp, `affine_maps` for those that are cut over ep, and what no map describes, with the reason.
void ExplainAsAffine(const Explanation& explanation, llvm::raw_ostream& out);

}  // namespace ucp
