#include "runtime/executor/element_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ucp {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float FromFloat16(std::uint16_t bits) {
  int exponent = bits >> 10 & 31;
  int mantissa = bits & 0x3FF;
  float magnitude =
      std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + 1024), exponent == 0 ? -24 : exponent - 25);
  if (exponent == 31) magnitude = mantissa == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::string Bits(DType dtype, const std::byte* bytes) {
  std::string text = "0x";
  for (std::int64_t i = ItemBytes(dtype); i-- > 0;) text += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  return text;
}

}  // namespace

std::string ElementText(DType dtype, const std::byte* bytes) {
  std::string bits = Bits(dtype, bytes);
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return fmt::format("{}", Load<std::uint8_t>(bytes));
    case DType::kInt8:
      return fmt::format("{}", static_cast<int>(Load<std::int8_t>(bytes)));
    case DType::kInt16:
      return fmt::format("{}", Load<std::int16_t>(bytes));
    case DType::kInt32:
      return fmt::format("{}", Load<std::int32_t>(bytes));
    case DType::kInt64:
      return fmt::format("{}", Load<std::int64_t>(bytes));
    case DType::kUInt16:
      return fmt::format("{}", Load<std::uint16_t>(bytes));
    case DType::kUInt32:
      return fmt::format("{}", Load<std::uint32_t>(bytes));
    case DType::kUInt64:
      return fmt::format("{}", Load<std::uint64_t>(bytes));
    case DType::kFloat16:
      return fmt::format("{} ({})", FromFloat16(Load<std::uint16_t>(bytes)), bits);
    case DType::kBFloat16:
      return fmt::format("{} ({})", std::bit_cast<float>(static_cast<std::uint32_t>(Load<std::uint16_t>(bytes)) << 16),
                         bits);
    case DType::kFloat32:
      return fmt::format("{} ({})", Load<float>(bytes), bits);
    case DType::kFloat64:
      return fmt::format("{} ({})", Load<double>(bytes), bits);
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return bits;
  }
  return bits;
}

}  // namespace ucp
