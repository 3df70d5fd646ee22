// A sentence on how the elements of one layout of a model lie in the other, for the report of a conversion.
#pragma once

#include <string>

#include "compiler/bind/between_layouts.h"

namespace ucp {

// "of 39 tensors of the layout `meta`, 31 have the elements of one tensor in their order; 8 have them in another order
// within a dimension, such as `a` of `b`, and no shape shows it". `common` is FindCommonElements() of the two.
std::string TextOfMoves(const LayoutOfModel& source, const LayoutOfModel& target, const CommonOfTensors& common);

}  // namespace ucp
