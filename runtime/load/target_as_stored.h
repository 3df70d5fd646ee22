// A target's files, where the source has all that they would hold just so: then there is nothing to convert, and
// nothing is planned.
#pragma once

#include <vector>

#include "compiler/layout/target.h"
#include "compiler/phases/source_phase.h"
#include "runtime/load/load_plan.h"

namespace ucp {

// LoadPlan::as_stored of a target in which no tensor is cut. Empty where a plan is needed: a record is not all of one
// state of one tensor, a tensor of the source is left out, or held_as_stored.h says so of what the records hold.
std::vector<StoredBytes> FindTargetAsStored(const SourcePhase& source, const TargetFiles& target);

}  // namespace ucp
