// Finds the type that numbers of a dtype are computed in, cast from and cast to.
#pragma once

#include "compiler/layout/dtype.h"
#include "compiler/support/check.h"
#include "compiler/support/floats.h"

namespace ucp {

// Calls `visit` with a value of the type of floats.h that `dtype` is. IsArithmetic(dtype) must hold.
template <typename Visit>
void WithNumberType(DType dtype, Visit visit) {
  if (dtype == DType::kFloat64) return visit(Float64());
  if (dtype == DType::kFloat32) return visit(Float32());
  if (dtype == DType::kBFloat16) return visit(BFloat16());
  UCP_CHECK(dtype == DType::kFloat16, "arithmetic in {}", Name(dtype));
  visit(Float16());
}

}  // namespace ucp
