#include "runtime/executor/rounding.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/support/check.h"

namespace ucp {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

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
