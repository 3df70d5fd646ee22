// Reading one number, and where the elements of a tensor lie.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/formats/pytorch/archive_reader.h"

namespace ucp::pytorch {
namespace {

template <typename T>
T FromBytes(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

double FromHalf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(0x400 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

std::optional<double> AsNumber(DType dtype, std::string_view bytes) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return FromBytes<std::uint8_t>(bytes);
    case DType::kInt8:
      return FromBytes<std::int8_t>(bytes);
    case DType::kInt16:
      return FromBytes<std::int16_t>(bytes);
    case DType::kInt32:
      return FromBytes<std::int32_t>(bytes);
    case DType::kInt64:
      return static_cast<double>(FromBytes<std::int64_t>(bytes));
    case DType::kUInt16:
      return FromBytes<std::uint16_t>(bytes);
    case DType::kUInt32:
      return FromBytes<std::uint32_t>(bytes);
    case DType::kUInt64:
      return static_cast<double>(FromBytes<std::uint64_t>(bytes));
    case DType::kFloat16:
      return FromHalf(FromBytes<std::uint16_t>(bytes));
    case DType::kBFloat16:
      return std::bit_cast<float>(std::uint32_t{FromBytes<std::uint16_t>(bytes)} << 16);
    case DType::kFloat32:
      return FromBytes<float>(bytes);
    case DType::kFloat64:
      return FromBytes<double>(bytes);
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return std::nullopt;
  }
  UCP_UNREACHABLE();
}

}  // namespace

std::uint64_t FileOffset(const Archive& archive, const Tensor& tensor) {
  const auto storage = archive.storages.find(tensor.storage->key);
  UCP_CHECK(storage != archive.storages.end(), "storage `{}` is not of this archive", tensor.storage->key);
  return storage->second.data.offset + static_cast<std::uint64_t>(tensor.offset * ItemBytes(tensor.dtype));
}

llvm::Expected<double> ReadScalar(const ReadableFile& file, const Archive& archive, const Tensor& tensor) {
  for (const std::int64_t size : tensor.sizes) {
    if (size != 1) return Fail(ErrorCode::kBadData, "`{}`: a tensor stands where one number is expected", file.path());
  }
  UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadSmallTensor(file, archive, tensor));
  const auto number = AsNumber(tensor.dtype, bytes);
  if (number) return *number;
  return Fail(ErrorCode::kUnsupported, "`{}`: a {} stands where a number is expected", file.path(), Name(tensor.dtype));
}

}  // namespace ucp::pytorch
