#include "runtime/difference/difference_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/difference/widen.h"

namespace ucp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
const std::byte* BytesOf(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

template <typename A, typename B>
Difference Compare(DType dtype_a, const std::vector<A>& a, DType dtype_b, const std::vector<B>& b) {
  DifferenceSum sum(dtype_a, dtype_b);
  sum.Add(BytesOf(a), BytesOf(b), std::ssize(a), 0);
  return sum.Get();
}

Difference CompareFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return Compare(DType::kFloat32, a, DType::kFloat32, b);
}

TEST(DifferenceSumTest, IsWhatASlowLoopFinds) {
  std::mt19937 random(20261123);
  std::normal_distribution<float> normal;
  for (std::int64_t count : {1, 7, 255, 256, 257, 5000}) {
    std::vector<float> a(static_cast<std::size_t>(count));
    for (float& value : a) value = normal(random);
    std::vector<float> b = a;
    for (std::size_t i = 0; i < b.size(); i += 3) b[i] += normal(random);
    double squares = 0;
    double squares_of_a = 0;
    double largest = 0;
    std::int64_t at = -1;
    std::uint64_t differ = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      squares += difference * difference;
      squares_of_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      if (a[i] != b[i]) ++differ;
      if (std::abs(difference) <= largest) continue;
      largest = std::abs(difference);
      at = static_cast<std::int64_t>(i);
    }
    const Difference found = CompareFloats(a, b);
    EXPECT_EQ(found.elements, differ);
    EXPECT_EQ(found.not_finite, 0U);
    EXPECT_NEAR(found.squares, squares, squares * 1e-12);
    EXPECT_NEAR(found.squares_of_a, squares_of_a, squares_of_a * 1e-12);
    EXPECT_EQ(found.largest, largest);
    EXPECT_EQ(found.at_largest.place, at);
    EXPECT_EQ(std::memcmp(found.at_largest.a.data(), &a[static_cast<std::size_t>(at)], 4), 0);
    EXPECT_EQ(std::memcmp(found.at_largest.b.data(), &b[static_cast<std::size_t>(at)], 4), 0);
  }
}

TEST(DifferenceSumTest, ChunksMakeNoDifference) {
  std::mt19937 random(20261124);
  std::normal_distribution<float> normal;
  std::vector<float> a(10000);
  std::vector<float> b(10000);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  const Difference whole = CompareFloats(a, b);
  for (std::int64_t step : {256, 512, 2304, 9984}) {
    DifferenceSum sum(DType::kFloat32, DType::kFloat32);
    for (std::int64_t begin = 0; begin < 10000; begin += step) {
      sum.Add(BytesOf(a) + begin * 4, BytesOf(b) + begin * 4, std::min<std::int64_t>(step, 10000 - begin), begin);
    }
    EXPECT_EQ(sum.Get().squares, whole.squares);
    EXPECT_EQ(sum.Get().squares_of_a, whole.squares_of_a);
    EXPECT_EQ(sum.Get().at_largest.place, whole.at_largest.place);
    EXPECT_EQ(sum.Get().elements, 10000U);
  }
}

TEST(DifferenceSumTest, EqualBitsAreTheSameWhateverTheyMean) {
  const Difference found = CompareFloats({kNan, kInfinity, -kInfinity, 0, 3}, {kNan, kInfinity, -kInfinity, 0, 3});
  EXPECT_EQ(found.elements, 0U);
  EXPECT_EQ(found.squares, 0);
  EXPECT_EQ(found.squares_of_a, 9);  // Numbers that are not finite count nothing.
  EXPECT_EQ(found.first.place, -1);
}

TEST(DifferenceSumTest, WhatIsNotFiniteIsCountedByItself) {
  const Difference found = CompareFloats({1, kNan, 2, kInfinity, kInfinity, 5}, {kNan, 1, 2, -kInfinity, 7, 5.5});
  EXPECT_EQ(found.elements, 5U);
  EXPECT_EQ(found.not_finite, 4U);
  EXPECT_EQ(found.squares, 0.25);
  EXPECT_EQ(found.first.place, 0);
  EXPECT_EQ(found.at_largest.place, 5);
}

TEST(DifferenceSumTest, ZerosOfTwoSignsDifferByNothing) {
  const Difference found = CompareFloats({1, 0.0F}, {1, -0.0F});
  EXPECT_EQ(found.elements, 1U);
  EXPECT_EQ(found.not_finite, 0U);
  EXPECT_EQ(found.squares, 0);
  EXPECT_EQ(found.first.place, 1);
  EXPECT_EQ(found.at_largest.place, -1);
}

TEST(DifferenceSumTest, OtherDtypesAreHeldAgainstEachOtherAsNumbers) {
  const std::vector<std::uint16_t> low{0x3F80, 0x8000, 0x7FC0, 0x7F80, 0x4000};  // 1, -0, NaN, infinity, 2
  const Difference found =
      Compare(DType::kFloat32, std::vector<float>{1, 0, kNan, kInfinity, 2.25F}, DType::kBFloat16, low);
  EXPECT_EQ(found.elements, 1U);
  EXPECT_EQ(found.largest, 0.25);
  EXPECT_EQ(found.first.place, 4);
}

TEST(DifferenceSumTest, ComplexNumbersAreComparedBitByBit) {
  DifferenceSum sum(DType::kComplex64, DType::kComplex64);
  const std::vector<float> a{1, 2, 3, 4};
  const std::vector<float> b{1, 2, 3, 5};
  sum.Add(BytesOf(a), BytesOf(b), 2, 0);
  EXPECT_EQ(sum.Get().elements, 1U);
  EXPECT_EQ(sum.Get().not_finite, 1U);
  EXPECT_EQ(sum.Get().first.place, 1);
}

TEST(DifferenceSumTest, EveryDtypeIsWidenedAsItIs) {
  auto widened = [](DType dtype, auto value) {
    double number = 0;
    Widen(dtype, reinterpret_cast<const std::byte*>(&value), 1, &number);
    return number;
  };
  EXPECT_EQ(widened(DType::kBool, std::uint8_t{1}), 1);
  EXPECT_EQ(widened(DType::kUInt8, std::uint8_t{200}), 200);
  EXPECT_EQ(widened(DType::kInt8, std::int8_t{-100}), -100);
  EXPECT_EQ(widened(DType::kInt16, std::int16_t{-30000}), -30000);
  EXPECT_EQ(widened(DType::kUInt16, std::uint16_t{60000}), 60000);
  EXPECT_EQ(widened(DType::kInt32, std::int32_t{-2000000000}), -2000000000);
  EXPECT_EQ(widened(DType::kUInt32, std::uint32_t{4000000000}), 4000000000);
  EXPECT_EQ(widened(DType::kInt64, std::int64_t{-1} << 52), -0x1p52);
  EXPECT_EQ(widened(DType::kUInt64, std::uint64_t{1} << 63), 0x1p63);
  EXPECT_EQ(widened(DType::kFloat16, std::uint16_t{0x3555}), 0.333251953125);
  EXPECT_EQ(widened(DType::kBFloat16, std::uint16_t{0xC049}), -3.140625);
  EXPECT_EQ(widened(DType::kFloat32, 0.1F), static_cast<double>(0.1F));
  EXPECT_EQ(widened(DType::kFloat64, 0.1), 0.1);
}

TEST(DifferenceTest, StretchesAreAppendedInOrder) {
  Difference sum;
  const std::vector<std::pair<std::int64_t, double>> stretches{{-1, 0}, {5, 2}, {9, 2}, {12, 1}};
  for (auto [place, largest] : stretches) {
    Difference next;
    next.elements = place < 0 ? 0 : 1;
    next.squares = largest * largest;
    next.largest = largest;
    next.first.place = place;
    next.at_largest.place = place;
    sum.Append(next);
  }
  EXPECT_EQ(sum.elements, 3U);
  EXPECT_EQ(sum.squares, 9);
  EXPECT_EQ(sum.first.place, 5);
  EXPECT_EQ(sum.at_largest.place, 5);
}

}  // namespace
}  // namespace ucp
