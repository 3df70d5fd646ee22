// Warns of something legal that is perhaps not meant: patterns of a spec that stand for no tensor of this checkpoint.
#pragma once

#include "compiler/bind/bind.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"

namespace ucp {

// Warns of optional tensors, drops and second names that the checkpoint has none of, and of counters that count to 0.
// Branches of `when` that are not taken are not a mistake. `bound` must come from BindSpec with the same arguments.
void WarnOfUnmatchedPatterns(const BoundSpec& bound, const Inventory& inventory, const Settings& set,
                             DiagnosticSink& sink);

}  // namespace ucp
