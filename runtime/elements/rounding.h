// Whether weights are the roundings of their float32 masters (compiler/support/floats.h says how numbers are rounded).
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/layout/dtype.h"
#include "compiler/support/floats.h"

namespace ucp {

// Returns whether IsRoundingOf() knows how to compare an element of `low` with a float32.
bool CanCheckRounding(DType low);

// Returns whether `weight`, of type `low`, is the rounding of the float32 at `master`. Any NaN is the rounding of any
// NaN. CanCheckRounding(low) must hold.
bool IsRoundingOf(const std::byte* master, DType low, const std::byte* weight);

// Returns how many of `count` neighbouring elements are not.
std::int64_t CountRoundingMismatches(const std::byte* masters, DType low, const std::byte* lows, std::int64_t count);

}  // namespace ucp
