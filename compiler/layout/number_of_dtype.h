// Finds how a number of a dtype is stored, for callers that want its value, of any dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compiler/layout/dtype.h"
#include "compiler/support/check.h"
#include "compiler/support/floats.h"

namespace ucp {

// Beside the types of floats.h.
template <typename Integer>
struct Whole {
  using Stored = Integer;
  static Integer Load(Integer value) { return value; }
};

// Returns the value at `bytes`, which need not be aligned.
template <typename Type>
auto LoadNumber(const std::byte* bytes) {
  typename Type::Stored stored;
  std::memcpy(&stored, bytes, sizeof stored);
  return Type::Load(stored);
}

// Calls `visit` with a value of the type above, or of floats.h, that `dtype` is. False, without a call, for complex
// numbers, which are two, and for float8.
template <typename Visit>
bool VisitNumber(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return visit(Whole<std::uint8_t>()), true;
    case DType::kInt8:
      return visit(Whole<std::int8_t>()), true;
    case DType::kInt16:
      return visit(Whole<std::int16_t>()), true;
    case DType::kInt32:
      return visit(Whole<std::int32_t>()), true;
    case DType::kInt64:
      return visit(Whole<std::int64_t>()), true;
    case DType::kUInt16:
      return visit(Whole<std::uint16_t>()), true;
    case DType::kUInt32:
      return visit(Whole<std::uint32_t>()), true;
    case DType::kUInt64:
      return visit(Whole<std::uint64_t>()), true;
    case DType::kFloat16:
      return visit(Float16()), true;
    case DType::kBFloat16:
      return visit(BFloat16()), true;
    case DType::kFloat32:
      return visit(Float32()), true;
    case DType::kFloat64:
      return visit(Float64()), true;
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

}  // namespace ucp
