// Every local tensor of the source has the shape that the spec gives it.
#pragma once

#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// Compares every declared shape with every shard. Gives one message for each declared dimension that is wrong, however
// many tensors and ranks it is wrong for.
void MatchShapes(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                 DiagnosticSink& sink);

}  // namespace ucp
