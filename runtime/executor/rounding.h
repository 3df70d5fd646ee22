// Rounding of float32 to the types that models compute with: to nearest, ties to even, as PyTorch does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/layout/dtype.h"

namespace ucp {

std::uint16_t RoundToBFloat16(float value);
std::uint16_t RoundToFloat16(float value);  // Too large becomes infinite; small ones become subnormal or zero.

// Whether IsRoundingOf() knows how to compare an element of `low` with a float32.
bool CanCheckRounding(DType low);

// Whether the element of type `low` at `low_bytes` is what the float32 at `master_bytes` rounds to. Any NaN is the
// rounding of any NaN. CanCheckRounding(low) must hold.
bool IsRoundingOf(const std::byte* master_bytes, DType low, const std::byte* low_bytes);

// How many of `count` neighbouring elements are not; fast where all are.
std::int64_t CountRoundingMismatches(const std::byte* master_bytes, DType low, const std::byte* low_bytes,
                                     std::int64_t count);

}  // namespace ucp
