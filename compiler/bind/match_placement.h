// Checks that every tensor of the source is where the spec says.
#pragma once

#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// Checks that each tensor is on the stages that the spec says, and that on each of them all parts of it are there.
// Reports one message for each declaration, however many tensors it is wrong for.
void MatchPlacement(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                    DiagnosticSink& sink);

}  // namespace ucp
