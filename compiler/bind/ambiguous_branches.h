// Two readings that the spec itself has of one checkpoint: both branches of a `when` fit its names and shapes, and cut
// a tensor differently. That is not a mistake where something known chose the branch, and doubtful where a default did.
#pragma once

#include "compiler/bind/bind.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"

namespace ucp {

// Gives one warning for each two branches. `bound` must come from BindSpec with the same arguments.
void WarnOfAmbiguousBranches(const BoundSpec& bound, const Inventory& inventory, const Settings& set,
                             DiagnosticSink& sink);

}  // namespace ucp
