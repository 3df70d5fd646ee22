// Element types, by the names PyTorch prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ucp {

enum class DType {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
};

std::int64_t ItemBytes(DType dtype);
std::string_view Name(DType dtype);  // "float32", as in torch.float32.
// Whether a cast of a target's weights applies to it: of 16, 32 or 64 bits. The types of 8 bits need their scales.
bool IsFloatingPoint(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);

}  // namespace ucp
