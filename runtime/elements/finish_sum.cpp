#include "runtime/elements/finish_sum.h"

#include "runtime/elements/arithmetic.h"

namespace ucp {
namespace {

double Number(const Scale& scale) {
  return static_cast<double>(scale.numerator) / static_cast<double>(scale.denominator);
}

}  // namespace

void FinishSum(const Arithmetic& arithmetic, DType dtype, std::span<std::byte> sum) {
  if (arithmetic.terms > 1) Divide(dtype, sum, static_cast<double>(arithmetic.terms));
  if (arithmetic.divisor != Scale{}) Divide(dtype, sum, Number(arithmetic.divisor));
  if (arithmetic.factor != Scale{}) Multiply(dtype, sum, Number(arithmetic.factor));
}

}  // namespace ucp
