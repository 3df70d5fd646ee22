// Compiled once for each kind of vector unit (Highway's dynamic dispatch): below, HWY_NAMESPACE is another name each
// time. The loops are plain ones over blocks of one size, so that the compiler knows it and can use vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/elements/rounding.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "compiler/support/check.h"
#include "runtime/elements/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace ucp::HWY_NAMESPACE {
namespace {

struct LowBFloat16 {
  using Stored = std::uint16_t;
  static std::uint16_t Round(std::uint32_t master) { return RoundToBFloat16(std::bit_cast<float>(master)); }
  static bool IsNan(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7F80; }
};
struct LowFloat16 {
  using Stored = std::uint16_t;
  static std::uint16_t Round(std::uint32_t master) { return RoundToFloat16(std::bit_cast<float>(master)); }
  static bool IsNan(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }
};
struct LowFloat32 {
  using Stored = std::uint32_t;
  static std::uint32_t Round(std::uint32_t master) { return master; }
  static bool IsNan(std::uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }
};

constexpr std::size_t kBlockElements = 256;

template <typename Low>
std::int64_t CountInBlocks(const std::byte* masters, const std::byte* lows, std::size_t count) {
  std::int64_t mismatches = 0;
  std::array<std::uint32_t, kBlockElements> master{};
  std::array<typename Low::Stored, kBlockElements> low{};
  for (std::size_t done = 0; done < count; done += kBlockElements) {
    std::size_t elements = std::min(kBlockElements, count - done);
    if (elements < kBlockElements) {  // Zero is the rounding of zero.
      master.fill(0);
      low.fill(0);
    }
    std::memcpy(master.data(), masters + done * sizeof master[0], elements * sizeof master[0]);
    std::memcpy(low.data(), lows + done * sizeof low[0], elements * sizeof low[0]);
    std::uint32_t wrong = 0;
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      // Numbers, since branches would keep the loop from vectors.
      const std::uint32_t nan = LowFloat32::IsNan(master[i]) ? 1 : 0;
      const std::uint32_t low_nan = Low::IsNan(low[i]) ? 1 : 0;
      const std::uint32_t same = low[i] == Low::Round(master[i]) ? 1 : 0;
      wrong += 1 - (nan * low_nan + (1 - nan) * same);
    }
    mismatches += wrong;
  }
  return mismatches;
}

std::int64_t CountMismatches(const std::byte* masters, DType low, const std::byte* lows, std::size_t count) {
  if (low == DType::kBFloat16) return CountInBlocks<LowBFloat16>(masters, lows, count);
  if (low == DType::kFloat16) return CountInBlocks<LowFloat16>(masters, lows, count);
  UCP_CHECK(low == DType::kFloat32, "no rounding is known for {}", Name(low));
  return CountInBlocks<LowFloat32>(masters, lows, count);
}

}  // namespace
}  // namespace ucp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucp {
namespace {

HWY_EXPORT(CountMismatches);

}  // namespace

bool CanCheckRounding(DType low) { return low == DType::kFloat16 || low == DType::kBFloat16 || low == DType::kFloat32; }

std::int64_t CountRoundingMismatches(const std::byte* masters, DType low, const std::byte* lows, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(CountMismatches)(masters, low, lows, static_cast<std::size_t>(count));
}

bool IsRoundingOf(const std::byte* master, DType low, const std::byte* weight) {
  return CountRoundingMismatches(master, low, weight, 1) == 0;
}

}  // namespace ucp
#endif
