// The cut of a tensor that holds several experts, one for each place of its first dimension.
#pragma once

#include "compiler/layout/inventory.h"
#include "compiler/layout/shape.h"

namespace ucp {

// Returns the first dimension: which of its places each rank of `ep` has.
ShapeExpr CutByExperts(const ExpertPlaces& places);

}  // namespace ucp
