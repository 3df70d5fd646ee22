#include "runtime/synth/synthetic_value.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/elements/rounding.h"

namespace ucp {
namespace {

template <typename T>
std::vector<T> Values(std::string_view tensor, std::string_view state, DType dtype, std::int64_t first,
                      std::size_t count) {
  std::vector<T> values(count);
  llvm::cantFail(SyntheticValues::Make(tensor, state, dtype)).Fill(first, std::as_writable_bytes(std::span<T>(values)));
  return values;
}

// The definition of docs/synthetic.md, one element at a time and in whole numbers.
double Defined(const std::string& tensor, const std::string& state, std::uint64_t number) {
  std::uint64_t key = 0xCBF29CE484222325;
  for (char c : tensor + '\0' + state) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  key += number / 4294967296 * 0x9E3779B97F4A7C15;
  const std::uint64_t word = 4294967296;
  std::uint64_t x = number % word * 0x9E3779B1 % word ^ key % word;
  x ^= x / 65536;
  x = x * 0x85EBCA6B % word;
  x ^= x / 8192;
  x = (x + key / word) % word * 0xC2B2AE35 % word;
  x ^= x / 65536;
  auto odd = static_cast<double>(2 * (x / 4096) + 1);
  return (state == "exp_avg_sq" ? odd : odd - 1048576) / 16777216;
}

TEST(SyntheticValueTest, IsAsDefined) {
  const std::int64_t at_edge = (std::int64_t{1} << 32) - 700;  // Blocks of the code, and the upper half of the number.
  for (std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{123456789}, at_edge}) {
    for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"}) {
      const std::vector<float> values = Values<float>("model.norm.weight", state, DType::kFloat32, first, 3000);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], Defined("model.norm.weight", state, static_cast<std::uint64_t>(first) + i))
            << first << " + " << i;
      }
    }
  }
}

TEST(SyntheticValueTest, AWeightIsTheRoundingOfItsMaster) {
  const auto masters = Values<float>("a", "fp32", DType::kFloat32, 5, 4000);
  EXPECT_EQ(Values<float>("a", "weight", DType::kFloat32, 5, 4000), masters);
  const auto bf16 = Values<std::uint16_t>("a", "weight", DType::kBFloat16, 5, 4000);
  const auto fp16 = Values<std::uint16_t>("a", "weight", DType::kFloat16, 5, 4000);
  const auto fp64 = Values<double>("a", "fp32", DType::kFloat64, 5, 4000);
  int rounded = 0;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    ASSERT_EQ(bf16[i], RoundToBFloat16(masters[i]));
    ASSERT_EQ(fp16[i], RoundToFloat16(masters[i]));
    ASSERT_EQ(fp64[i], masters[i]);
    rounded += WidenBFloat16(bf16[i]) != masters[i] ? 1 : 0;
  }
  EXPECT_GT(rounded, 3900);  // Or the rounding would go untested.
}

TEST(SyntheticValueTest, NamesStatesAndPlacesGiveOtherNumbers) {
  const auto a = Values<float>("a", "fp32", DType::kFloat32, 0, 10'000);
  for (const auto& other : {Values<float>("b", "fp32", DType::kFloat32, 0, 10'000),
                            Values<float>("a", "exp_avg", DType::kFloat32, 0, 10'000),
                            Values<float>("a", "fp32", DType::kFloat32, 1, 10'000),
                            Values<float>("a", "fp32", DType::kFloat32, std::int64_t{1} << 32, 10'000)}) {
    int same = 0;
    for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == other[i] ? 1 : 0;
    EXPECT_LT(same, 5);
  }
  EXPECT_GT(std::set<float>(a.begin(), a.end()).size(), 9900u);
  for (float value : a) {
    ASSERT_NE(value, 0);
    ASSERT_LT(std::abs(value), 0.0625F);
  }
  for (float value : Values<float>("a", "exp_avg_sq", DType::kFloat32, 0, 10'000)) ASSERT_GT(value, 0);
}

TEST(SyntheticValueTest, WholeNumbersHaveNone) {
  auto values = SyntheticValues::Make("steps", "weight", DType::kInt64);
  ASSERT_FALSE(static_cast<bool>(values));
  EXPECT_THAT(TakeFailure(values.takeError()).message, testing::HasSubstr("`weight` of tensor `steps` is int64"));
}

}  // namespace
}  // namespace ucp
