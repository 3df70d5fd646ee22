// The last of a plan's arithmetic on elements: the sum of the terms becomes the number that the target stores.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/plan/plan.h"

namespace ucp {

// `sum` holds whole elements, the terms added up; IsArithmetic(dtype) must hold unless there is nothing to do.
void FinishSum(const Arithmetic& arithmetic, DType dtype, std::span<std::byte> sum);

}  // namespace ucp
