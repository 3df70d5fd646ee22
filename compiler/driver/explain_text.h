// An explanation as text, for people: one paragraph for each tensor, or for each group of tensors that differ in the
// numbers of their names only.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>

#include "compiler/driver/explain.h"

namespace ucp {

enum class Detail {
  kGroups,   // Layers and experts that are alike are one paragraph, without files.
  kTensors,  // Every tensor by itself, with the files that hold it.
};

// Calls `line` for each line; false from it ends the listing.
void ExplainAsText(const Explanation& explanation, Detail detail, llvm::function_ref<bool(const std::string&)> line);

}  // namespace ucp
