#include "runtime/difference/widen.h"

#include "compiler/layout/number_of_dtype.h"
#include "compiler/support/check.h"

namespace ucp {

bool CanWiden(DType dtype) {
  return VisitNumber(dtype, [](auto) {});
}

void Widen(DType dtype, const std::byte* elements, std::int64_t count, double* numbers) {
  const bool has_number = VisitNumber(dtype, [&](auto type) {
    constexpr std::int64_t kItemBytes = sizeof(typename decltype(type)::Stored);
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[i] = static_cast<double>(LoadNumber<decltype(type)>(elements + i * kItemBytes));
    }
  });
  UCP_CHECK(has_number, "{} has no number", Name(dtype));
}

}  // namespace ucp
