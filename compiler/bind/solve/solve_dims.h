// Solves the values of dims and facts. Each takes its value from, in this order: the command line, the checkpoint's own
// metadata, the shapes in the header (dims only), its default. Two of the first three that disagree are an error, and
// so is a definition that disagrees with anything. A condition waits for the dims and facts in it, and a declaration
// for its condition.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/spec.h"

namespace ucp {

struct SolvedValues {
  std::vector<std::optional<DimValue>> dims;    // One for each of the spec's.
  std::vector<std::optional<BoundFact>> facts;  // The same.
  std::vector<std::string> shard_names;         // As in BoundSpec; `found` looks into them.
};

// Returns a value for every dim and fact that a condition needs, or a name or shape in a branch that is taken. Returns
// nothing after reporting at least one error. Afterwards `found` has each layer by its own number, also where the
// checkpoint counts from 0 on every stage.
std::optional<SolvedValues> SolveDims(const CheckedSpec& spec, InventoryIndex& found, const Settings& set,
                                      DiagnosticSink& sink);

}  // namespace ucp
