// An explanation as text, for people: one paragraph for each tensor, or for each group of tensors that differ in the
// numbers of their names only.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>

#include "compiler/explain/explain.h"

namespace ucp {

enum class Detail {
  kGroups,   // Layers and experts that are alike are one paragraph, without files.
  kTensors,  // Every tensor by itself, with the files that hold it.
};

// Calls `line` for each line; false from it ends the listing.
void ExplainAsText(const Explanation& explanation, Detail detail, llvm::function_ref<bool(const std::string&)> line);

// "dim hidden is 16, read from `args.hidden_size`": `word` is "dim" or "fact".
std::string ValueText(const std::string& word, const ExplainedValue& value);

// "52 tensors: 15,024 parameters, 128 elements of buffers; 1 second name"
std::string TotalsText(const ExplainedTotals& totals);

}  // namespace ucp
