// Casts of floating-point numbers, to the bit as PyTorch does them on a CPU: to nearest, ties to even, too large
// becomes infinite, subnormals are kept; float64 goes to float16 and bfloat16 by way of float32. Every NaN becomes the
// positive quiet one without payload; PyTorch's own choice there depends on the processor and on the element's place.
//
// With an offset, it is added before: in float64 where one of the types is that, and else in float32. The sum is then
// rounded as a cast of it is, so a number is rounded once to a type of 16 bits. The payload of a NaN is not promised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/layout/dtype.h"

namespace ucp {

// The first `elements` of `bytes` are of type `from`, and then of type `to`; there is room for either. IsArithmetic()
// must hold for both, unless they are the same and nothing is done.
void Cast(std::span<std::byte> bytes, std::int64_t elements, DType from, DType to, std::int64_t offset = 0);

// Does the same from one memory to another, from the front however wide the elements become.
void CastInto(std::span<std::byte> target, std::span<const std::byte> source, std::int64_t elements, DType from,
              DType to, std::int64_t offset = 0);

}  // namespace ucp
