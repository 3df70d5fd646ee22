// The widths of cuts by `(widths)` alone: each rank's own length in the headers says how much it got.
#pragma once

#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// Returns the widths of each such cut, from the first tensor of its declaration; MatchShapes compares the others. Call
// after MatchPlacement: a cut of which a part is missing gets no widths, and this does not report it. Reports lengths
// that no width makes.
FoundWidths FindWidths(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                       DiagnosticSink& sink);

}  // namespace ucp
