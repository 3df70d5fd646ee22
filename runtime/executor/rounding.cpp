#include "runtime/executor/rounding.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/support/check.h"

namespace ucp {
namespace {

// `bits` without its lowest `drop` bits, to nearest, ties to even.
std::uint32_t RoundOff(std::uint32_t bits, unsigned drop) {
  std::uint32_t kept = bits >> drop;
  std::uint32_t rest = bits & ((1U << drop) - 1);
  std::uint32_t half = 1U << (drop - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

std::uint16_t RoundToBFloat16(float value) {
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<std::uint16_t>(RoundOff(std::bit_cast<std::uint32_t>(value), 16));
}

// float32 has 8 bits of exponent (bias 127) and 23 of mantissa, float16 5 (bias 15) and 10. In both, rounding the
// mantissa up may carry into the exponent, and that is right: the next number is there.
std::uint16_t RoundToFloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = bits >> 31 << 15;
  std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);  // From 65536 on, infinity.
  std::uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) {  // From 2^-14 on, normal.
    return static_cast<std::uint16_t>(sign | RoundOff(magnitude - (112U << 23), 13));
  }
  // Below, a float16 counts in units of 2^-24; below half a unit it is zero.
  if (exponent < 102) return static_cast<std::uint16_t>(sign);
  std::uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  return static_cast<std::uint16_t>(sign | RoundOff(mantissa, 126 - exponent));
}

bool CanCheckRounding(DType low) { return low == DType::kFloat16 || low == DType::kBFloat16 || low == DType::kFloat32; }

bool IsRoundingOf(const std::byte* master_bytes, DType low, const std::byte* low_bytes) {
  auto master = Load<float>(master_bytes);
  if (low == DType::kFloat32) {
    auto other = Load<float>(low_bytes);
    return std::bit_cast<std::uint32_t>(master) == std::bit_cast<std::uint32_t>(other) ||
           (std::isnan(master) && std::isnan(other));
  }
  auto bits = Load<std::uint16_t>(low_bytes);
  std::uint16_t magnitude = bits & 0x7FFF;
  if (low == DType::kBFloat16) return std::isnan(master) ? magnitude > 0x7F80 : bits == RoundToBFloat16(master);
  UCP_CHECK(low == DType::kFloat16, "no rounding is known for {}", Name(low));
  return std::isnan(master) ? magnitude > 0x7C00 : bits == RoundToFloat16(master);
}

std::int64_t CountRoundingMismatches(const std::byte* master_bytes, DType low, const std::byte* low_bytes,
                                     std::int64_t count) {
  std::int64_t mismatches = 0;
  if (low == DType::kBFloat16) {
    // IsRoundingOf() without branches, so that the compiler can use vectors.
    for (std::int64_t i = 0; i < count; ++i) {
      auto master = Load<std::uint32_t>(master_bytes + 4 * i);
      auto bits = Load<std::uint16_t>(low_bytes + 2 * i);
      auto rounded = static_cast<std::uint16_t>((master + 0x7FFF + (master >> 16 & 1)) >> 16);
      bool both_nan = ((master & 0x7FFFFFFF) > 0x7F800000) & ((bits & 0x7FFF) > 0x7F80);
      bool master_nan = (master & 0x7FFFFFFF) > 0x7F800000;
      mismatches += static_cast<std::int64_t>(!(both_nan | (!master_nan & (bits == rounded))));
    }
    return mismatches;
  }
  std::int64_t low_item = ItemBytes(low);
  for (std::int64_t i = 0; i < count; ++i) {
    mismatches += IsRoundingOf(master_bytes + 4 * i, low, low_bytes + low_item * i) ? 0 : 1;
  }
  return mismatches;
}

}  // namespace ucp
