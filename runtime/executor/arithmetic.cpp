#include "runtime/executor/arithmetic.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "compiler/support/check.h"
#include "runtime/executor/rounding.h"

namespace ucp {
namespace {

float FromFloat16(std::uint16_t bits) {
  int exponent = bits >> 10 & 0x1F;
  auto mantissa = static_cast<float>(bits & 0x3FF);
  float magnitude = std::ldexp(mantissa + (exponent == 0 ? 0.0F : 1024.0F), (exponent == 0 ? 1 : exponent) - 25);
  if (exponent == 0x1F) magnitude = mantissa == 0 ? HUGE_VALF : NAN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// How elements are stored and what is computed with.
struct Float64 {
  using Stored = double;
  static double Load(double value) { return value; }
  static double Store(double value) { return value; }
};
struct Float32 {
  using Stored = float;
  static float Load(float value) { return value; }
  static float Store(float value) { return value; }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  static float Load(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static std::uint16_t Store(float value) { return RoundToBFloat16(value); }
};
struct Float16 {
  using Stored = std::uint16_t;
  static float Load(std::uint16_t bits) { return FromFloat16(bits); }
  static std::uint16_t Store(float value) { return RoundToFloat16(value); }
};

template <typename Visit>
void WithType(DType dtype, Visit visit) {
  if (dtype == DType::kFloat64) return visit(Float64());
  if (dtype == DType::kFloat32) return visit(Float32());
  if (dtype == DType::kBFloat16) return visit(BFloat16());
  UCP_CHECK(dtype == DType::kFloat16, "arithmetic in {}", Name(dtype));
  visit(Float16());
}

// values[i] = change(values[i], i)
template <typename Type, typename Change>
void ForEachElement(std::span<std::byte> values, Change change) {
  using Stored = typename Type::Stored;
  for (std::size_t at = 0; at < values.size(); at += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, values.data() + at, sizeof stored);
    stored = Type::Store(change(Type::Load(stored), at));
    std::memcpy(values.data() + at, &stored, sizeof stored);
  }
}

}  // namespace

void Add(DType dtype, std::span<std::byte> sum, std::span<const std::byte> term) {
  UCP_CHECK(sum.size() == term.size(), "{} bytes and {}", sum.size(), term.size());
  WithType(dtype, [&](auto type) {
    using Type = decltype(type);
    ForEachElement<Type>(sum, [&](auto value, std::size_t at) {
      typename Type::Stored other;
      std::memcpy(&other, term.data() + at, sizeof other);
      return value + Type::Load(other);
    });
  });
}

void Divide(DType dtype, std::span<std::byte> values, double divisor) {
  WithType(dtype, [&](auto type) {
    ForEachElement<decltype(type)>(
        values, [&](auto value, std::size_t) { return value / static_cast<decltype(value)>(divisor); });
  });
}

void Multiply(DType dtype, std::span<std::byte> values, double factor) {
  WithType(dtype, [&](auto type) {
    ForEachElement<decltype(type)>(
        values, [&](auto value, std::size_t) { return value * static_cast<decltype(value)>(factor); });
  });
}

}  // namespace ucp
