// The values of dims and facts. Each takes its value from, in this order: the command line, the checkpoint's own
// metadata, the shapes in the header (dims only), its default. Two of the first three that disagree are an error, and
// so is a definition that disagrees with anything. A condition waits for what it speaks of, and a declaration for its
// condition.
#pragma once

#include <optional>
#include <vector>

#include "compiler/check/bind.h"
#include "compiler/check/inventory_index.h"
#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

struct SolvedValues {
  std::vector<std::optional<DimValue>> dims;    // One for each of the spec's.
  std::vector<std::optional<BoundFact>> facts;  // The same.
};

// Every dim and fact has a value that a condition needs, or a name or shape in a branch that is taken. Nothing after
// reporting.
std::optional<SolvedValues> SolveDims(const CheckedSpec& spec, const InventoryIndex& found, const Settings& set,
                                      DiagnosticSink& sink);

}  // namespace ucp
