// Adding and scaling elements where a plan says so, to the bit as PyTorch does it on a CPU: each operation is done in
// the state's own dtype (float16 and bfloat16 in float32) and rounded to it. The payload of a NaN is not promised.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/layout/dtype.h"

namespace ucp {

// IsArithmetic(dtype) must hold for all of them. Spans hold whole elements.

// `sum += term`, element by element; both are equally long.
void Add(DType dtype, std::span<std::byte> sum, std::span<const std::byte> term);

// `values /= divisor` and `values *= factor`.
void Divide(DType dtype, std::span<std::byte> values, double divisor);
void Multiply(DType dtype, std::span<std::byte> values, double factor);

}  // namespace ucp
