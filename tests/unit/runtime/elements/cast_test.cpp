// Casts against a slow oracle that knows numbers and not bits; against PyTorch itself in
// tests/engine/test_safetensors.py.
#include "runtime/elements/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace ucp {
namespace {

constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

struct Parameters {
  int mantissa_bits;
  int least_exponent;  // Of a normal number.
  int exponent_bits;
};

Parameters Of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {10, -14, 5};
    case DType::kBFloat16:
      return {7, -126, 8};
    case DType::kFloat32:
      return {23, -126, 8};
    default:
      return {52, -1022, 11};
  }
}

// The value of the bits, by the textbook.
double Value(DType dtype, std::uint64_t bits) {
  Parameters p = Of(dtype);
  auto mantissa = static_cast<double>(bits & ((std::uint64_t{1} << p.mantissa_bits) - 1));
  auto exponent = static_cast<int>(bits >> p.mantissa_bits & ((1U << p.exponent_bits) - 1));
  double sign = (bits >> (p.mantissa_bits + p.exponent_bits) & 1) != 0 ? -1 : 1;
  if (exponent == (1 << p.exponent_bits) - 1) return mantissa == 0 ? sign * HUGE_VAL : NAN;
  double implied = exponent == 0 ? 0 : std::ldexp(1.0, p.mantissa_bits);
  return sign * std::ldexp(mantissa + implied, p.least_exponent + std::max(exponent, 1) - 1 - p.mantissa_bits);
}

// The bits of the nearest number of a type, found by counting in units of its last place.
std::uint64_t Nearest(DType dtype, double value) {
  Parameters p = Of(dtype);
  std::uint64_t infinity = ((std::uint64_t{1} << p.exponent_bits) - 1) << p.mantissa_bits;
  if (std::isnan(value)) return infinity | std::uint64_t{1} << (p.mantissa_bits - 1);
  std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (p.mantissa_bits + p.exponent_bits) : 0;
  double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  int exponent = std::isinf(value) ? 1 << 20 : std::max(std::ilogb(magnitude), p.least_exponent);
  if (exponent >= 1 << (p.exponent_bits - 1)) return sign | infinity;
  double units = std::nearbyint(std::ldexp(magnitude, p.mantissa_bits - exponent));  // The default mode: ties to even.
  auto count = static_cast<std::uint64_t>(units);
  // Units of the exponent's own binade and of those below it, so that a carry moves on by itself.
  return sign | (count + (static_cast<std::uint64_t>(exponent - p.least_exponent) << p.mantissa_bits));
}

std::uint64_t Expected(DType from, DType to, std::uint64_t bits, std::int64_t offset = 0) {
  double value = Value(from, bits);
  bool narrow = to == DType::kFloat16 || to == DType::kBFloat16;
  bool in_float64 = from == DType::kFloat64 || to == DType::kFloat64;
  if (offset != 0) value += static_cast<double>(offset);  // Of two float32: rounded twice, it is rounded right.
  if (offset != 0 && !in_float64) value = Value(DType::kFloat32, Nearest(DType::kFloat32, value));
  if (from == DType::kFloat64 && narrow) value = Value(DType::kFloat32, Nearest(DType::kFloat32, value));
  return Nearest(to, value);
}

std::vector<std::uint64_t> AfterCast(DType from, DType to, const std::vector<std::uint64_t>& patterns,
                                     std::int64_t offset = 0) {
  auto from_item = static_cast<std::size_t>(ItemBytes(from));
  auto to_item = static_cast<std::size_t>(ItemBytes(to));
  std::vector<std::byte> bytes(patterns.size() * std::max(from_item, to_item));
  for (std::size_t i = 0; i < patterns.size(); ++i) std::memcpy(&bytes[i * from_item], &patterns[i], from_item);
  Cast(bytes, std::ssize(patterns), from, to, offset);
  std::vector<std::uint64_t> result(patterns.size(), 0);
  for (std::size_t i = 0; i < patterns.size(); ++i) std::memcpy(&result[i], &bytes[i * to_item], to_item);
  return result;
}

void ExpectRight(DType from, DType to, const std::vector<std::uint64_t>& patterns, std::int64_t offset = 0) {
  std::vector<std::uint64_t> result = AfterCast(from, to, patterns, offset);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::uint64_t expected = Expected(from, to, patterns[i], offset);
    if (offset != 0 && std::isnan(Value(to, expected)) && std::isnan(Value(to, result[i]))) continue;
    ASSERT_EQ(result[i], expected) << Name(from) << " to " << Name(to) << ": " << std::hex << patterns[i];
  }
}

// All exponents and both signs; mantissas at and around every place where a shorter mantissa ends, and random ones.
std::vector<std::uint64_t> Patterns(DType dtype) {
  Parameters p = Of(dtype);
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> mantissas = {0, 1};
  for (int bit = 0; bit <= p.mantissa_bits; ++bit) {
    for (std::uint64_t odd : {0U, 1U}) {
      std::uint64_t tie = std::uint64_t{1} << bit | odd << (bit + 1);
      for (std::uint64_t near : {tie - 1, tie, tie + 1}) mantissas.push_back(near);
    }
  }
  for (int i = 0; i < 20; ++i) mantissas.push_back(random());
  std::vector<std::uint64_t> patterns;
  for (std::uint64_t upper = 0; upper < std::uint64_t{1} << (p.exponent_bits + 1); ++upper) {
    for (std::uint64_t mantissa : mantissas) {
      std::uint64_t mask = (std::uint64_t{1} << p.mantissa_bits) - 1;
      patterns.push_back(upper << p.mantissa_bits | (mantissa & mask));
      patterns.push_back(upper << p.mantissa_bits | (~mantissa & mask));
    }
  }
  return patterns;
}

TEST(CastTest, EverySixteenBitPatternToEveryType) {
  std::vector<std::uint64_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (DType from : {DType::kFloat16, DType::kBFloat16}) {
    for (DType to : kTypes) {
      if (to != from) ExpectRight(from, to, all);
    }
  }
}

TEST(CastTest, EveryExponentAndEveryTieOfWiderOnes) {
  for (DType from : {DType::kFloat32, DType::kFloat64}) {
    for (DType to : kTypes) {
      if (to != from) ExpectRight(from, to, Patterns(from));
    }
  }
}

TEST(CastTest, AnOffsetIsAddedBeforeTheOneRounding) {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      for (std::int64_t offset : {-1, 1000}) ExpectRight(from, to, Patterns(from), offset);
    }
  }
}

TEST(CastTest, TheSameTypeKeepsEveryBit) {
  std::vector<std::uint64_t> nans = {0xFF81, 0x7F81, 0x7FFF, 0x8000, 0};
  EXPECT_EQ(AfterCast(DType::kBFloat16, DType::kBFloat16, nans), nans);
}

// Nothing of the source is changed, and nothing behind the elements is touched.
TEST(CastTest, IntoOtherMemory) {
  for (std::size_t count : {0U, 1U, 255U, 256U, 257U, 5000U}) {
    for (DType from : kTypes) {
      std::vector<std::uint64_t> patterns;
      for (std::size_t i = 0; i < count; ++i) patterns.push_back(Nearest(from, static_cast<double>(i) * 0.3));
      const auto from_item = static_cast<std::size_t>(ItemBytes(from));
      std::vector<std::byte> source(count * from_item);
      for (std::size_t i = 0; i < count; ++i) std::memcpy(&source[i * from_item], &patterns[i], from_item);
      const std::vector<std::byte> before = source;
      for (DType to : kTypes) {
        if (to == from) continue;
        const auto to_item = static_cast<std::size_t>(ItemBytes(to));
        std::vector<std::byte> target(count * to_item + 1, std::byte{0x55});
        CastInto(target, source, static_cast<std::int64_t>(count), from, to);
        EXPECT_EQ(source, before);
        EXPECT_EQ(target.back(), std::byte{0x55});
        for (std::size_t i = 0; i < count; ++i) {
          std::uint64_t result = 0;
          std::memcpy(&result, &target[i * to_item], to_item);
          ASSERT_EQ(result, Expected(from, to, patterns[i])) << Name(from) << " to " << Name(to) << ", element " << i;
        }
      }
    }
  }
}

// In place: nothing is overwritten before it has been read, whichever way the elements grow, and nothing behind them is
// touched.
TEST(CastTest, AnyNumberOfElements) {
  for (std::size_t count : {0U, 1U, 2U, 255U, 256U, 257U, 511U, 512U, 513U, 1000U, 5000U}) {
    std::vector<std::uint64_t> patterns;
    for (std::size_t i = 0; i < count; ++i) patterns.push_back(i * 2654435761U % 0x7C00);
    for (DType to : kTypes) ExpectRight(DType::kFloat16, to, patterns);
    for (std::uint64_t& pattern : patterns) pattern = Nearest(DType::kFloat64, static_cast<double>(pattern) * 0.3);
    for (DType to : kTypes) ExpectRight(DType::kFloat64, to, patterns);
  }
  std::vector<std::byte> bytes(16, std::byte{0x55});
  Cast(bytes, 3, DType::kFloat32, DType::kBFloat16);
  for (std::size_t i = 12; i < 16; ++i) EXPECT_EQ(bytes[i], std::byte{0x55});
}

}  // namespace
}  // namespace ucp
