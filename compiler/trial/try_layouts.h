// A model tried on its layouts: every ordered pair of them, with small dims and on one rank, every element followed by
// the slow oracle of part_positions.h.
#pragma once

#include "compiler/trial/trial.h"

namespace ucp {

// From each layout to each other and back, and on to a third: there and back is the identity, and two hops equal one.
// The report has the values, conversions and elements. `spec` has a model.
TrialReport TryLayouts(const CheckedSpec& spec, const TrialOptions& options);

}  // namespace ucp
