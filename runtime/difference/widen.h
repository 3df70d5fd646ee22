// Elements of any real dtype as float64, which holds all of them exactly but integers beyond 2^53.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/layout/dtype.h"

namespace ucp {

// Complex numbers and float8 are not: their elements are compared bit by bit alone.
bool CanWiden(DType dtype);

// `numbers[i]` becomes element i. CanWiden(dtype) must hold.
void Widen(DType dtype, const std::byte* elements, std::int64_t count, double* numbers);

}  // namespace ucp
