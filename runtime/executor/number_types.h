// The types that numbers are computed in, cast from and cast to: how each is stored, and what is computed with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/layout/dtype.h"
#include "compiler/support/check.h"
#include "runtime/executor/rounding.h"

namespace ucp {

// Load() is exact. Store() rounds what is narrower than it computes.
struct Float64 {
  using Stored = double;
  static double Load(double value) { return value; }
  static double Store(double value) { return value; }
};
struct Float32 {
  using Stored = float;
  static float Load(float value) { return value; }
  static float Store(float value) { return value; }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  static float Load(std::uint16_t bits) { return WidenBFloat16(bits); }
  static std::uint16_t Store(float value) { return RoundToBFloat16(value); }
};
struct Float16 {
  using Stored = std::uint16_t;
  static float Load(std::uint16_t bits) { return WidenFloat16(bits); }
  static std::uint16_t Store(float value) { return RoundToFloat16(value); }
};

// Calls `visit` with a value of the type above that `dtype` is. IsArithmetic(dtype) must hold.
template <typename Visit>
void WithNumberType(DType dtype, Visit visit) {
  if (dtype == DType::kFloat64) return visit(Float64());
  if (dtype == DType::kFloat32) return visit(Float32());
  if (dtype == DType::kBFloat16) return visit(BFloat16());
  UCP_CHECK(dtype == DType::kFloat16, "arithmetic in {}", Name(dtype));
  visit(Float16());
}

}  // namespace ucp
