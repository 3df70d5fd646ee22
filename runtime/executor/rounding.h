// Rounding of float32 to the types that models compute with, to nearest, ties to even, as PyTorch does; and the way
// back. A NaN is rounded to the positive quiet one without payload. Without branches and always inlined, so that loops
// over them become vectors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compiler/layout/dtype.h"

namespace ucp {

[[gnu::always_inline]] inline std::uint16_t RoundToBFloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;  // It may carry into the exponent, and rightly so.
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

// float32 has 8 bits of exponent (bias 127) and 23 of mantissa, float16 5 (bias 15) and 10. Too large becomes infinite.
// Below 2^-14 a float16 counts in units of 2^-24, which are those of a float32 between 0.5 and 1: adding 0.5 rounds.
[[gnu::always_inline]] inline std::uint16_t RoundToFloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = bits >> 31 << 15;
  std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t normal = (magnitude - (112U << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  std::uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  std::uint32_t rounded = sign | (magnitude >= 0x47800000 ? 0x7C00 : finite);
  return static_cast<std::uint16_t>(magnitude > 0x7F800000 ? 0x7E00 : rounded);
}

[[gnu::always_inline]] inline float WidenBFloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// The bits moved to their places are the number but for the bias, subnormals too.
[[gnu::always_inline]] inline float WidenFloat16(std::uint16_t bits) {
  std::uint32_t moved = (bits & 0x7FFFU) << 13;
  auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved) * 0x1p112F);
  std::uint32_t magnitude = (bits & 0x7FFFU) >= 0x7C00 ? moved | 0x7F800000 : finite;
  return std::bit_cast<float>((bits & 0x8000U) << 16 | magnitude);
}

// Whether IsRoundingOf() knows how to compare an element of `low` with a float32.
bool CanCheckRounding(DType low);

// Whether `weight`, of type `low`, is what the float32 at `master` rounds to. Any NaN is the
// rounding of any NaN. CanCheckRounding(low) must hold.
bool IsRoundingOf(const std::byte* master, DType low, const std::byte* weight);

// How many of `count` neighbouring elements are not.
std::int64_t CountRoundingMismatches(const std::byte* masters, DType low, const std::byte* lows, std::int64_t count);

}  // namespace ucp
