#include "runtime/executor/element_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "runtime/executor/rounding.h"

namespace ucp {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
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
      return fmt::format("{} ({})", WidenFloat16(Load<std::uint16_t>(bytes)), bits);
    case DType::kBFloat16:
      return fmt::format("{} ({})", WidenBFloat16(Load<std::uint16_t>(bytes)), bits);
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
