// Rule 3: the names that the patterns expand to and the names of the source header are the same set, each once, or the
// spec says otherwise (`drop`, `optional`, `tie`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

struct ExpandedSpec {
  // One name of the spec, with the facts that only matching needs.
  struct Tensor {
    BoundTensor bound;
    std::size_t variant = 0;
  };
  std::vector<Tensor> tensors;     // In the order of the declarations.
  std::vector<std::string> drops;  // Names that may be dropped.
  std::vector<Choice> choices;
};

// Returns all names of the spec, each once; ties are put to their tensors. Returns nothing after reporting.
std::optional<ExpandedSpec> ExpandSpec(const Values& values, DiagnosticSink& sink);

struct MatchedNames {
  std::vector<BoundTensor> tensors;  // Those that the source has.
  std::vector<std::string> dropped;
};

// Compares with the names of the source; reports all that are missing, not declared, or optional and half there.
MatchedNames MatchNames(const Values& values, ExpandedSpec expanded, const InventoryIndex& found, DiagnosticSink& sink);

}  // namespace ucp
