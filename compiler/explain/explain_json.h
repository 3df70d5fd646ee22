// An explanation as JSON, for tests and other programs. docs/json.md says what is in it.
#pragma once

#include <llvm/Support/raw_ostream.h>

#include "compiler/explain/explain.h"

namespace ucp {

// Written as it comes: a model has thousands of tensors, and each has hundreds of holders.
void ExplainAsJson(const Explanation& explanation, llvm::raw_ostream& out);

}  // namespace ucp
