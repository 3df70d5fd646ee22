#include "runtime/difference/widen.h"

#include <cstring>

#include "compiler/support/check.h"
#include "runtime/executor/rounding.h"

namespace ucp {
namespace {

template <typename Stored, typename Load>
void WidenAll(const std::byte* elements, std::int64_t count, double* numbers, Load load) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, elements + i * static_cast<std::int64_t>(sizeof stored), sizeof stored);
    numbers[i] = static_cast<double>(load(stored));
  }
}

template <typename Stored>
void WidenPlain(const std::byte* elements, std::int64_t count, double* numbers) {
  WidenAll<Stored>(elements, count, numbers, [](Stored value) { return value; });
}

}  // namespace

bool CanWiden(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return true;
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return false;
  }
  UCP_UNREACHABLE();
}

void Widen(DType dtype, const std::byte* elements, std::int64_t count, double* numbers) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return WidenPlain<std::uint8_t>(elements, count, numbers);
    case DType::kInt8:
      return WidenPlain<std::int8_t>(elements, count, numbers);
    case DType::kInt16:
      return WidenPlain<std::int16_t>(elements, count, numbers);
    case DType::kInt32:
      return WidenPlain<std::int32_t>(elements, count, numbers);
    case DType::kInt64:
      return WidenPlain<std::int64_t>(elements, count, numbers);
    case DType::kUInt16:
      return WidenPlain<std::uint16_t>(elements, count, numbers);
    case DType::kUInt32:
      return WidenPlain<std::uint32_t>(elements, count, numbers);
    case DType::kUInt64:
      return WidenPlain<std::uint64_t>(elements, count, numbers);
    case DType::kFloat16:
      return WidenAll<std::uint16_t>(elements, count, numbers, WidenFloat16);
    case DType::kBFloat16:
      return WidenAll<std::uint16_t>(elements, count, numbers, WidenBFloat16);
    case DType::kFloat32:
      return WidenPlain<float>(elements, count, numbers);
    case DType::kFloat64:
      return WidenPlain<double>(elements, count, numbers);
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      break;
  }
  UCP_CHECK(false, "{} has no number", Name(dtype));
}

}  // namespace ucp
