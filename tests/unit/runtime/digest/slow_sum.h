// docs/digests.md, number by number: the sums of both versions, slow and obvious.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/digest/unit_sum.h"

namespace ucp {

// Version 2, of units of 1, 2, 4 or 8 bytes.
SumLanes SlowUnits(std::uint64_t place, std::size_t unit_bytes, std::span<const std::byte> bytes);

// Version 1, of bytes.
SumLanes SlowLinear(std::uint64_t place, std::span<const std::byte> bytes);

}  // namespace ucp
