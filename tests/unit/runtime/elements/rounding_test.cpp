#include "runtime/elements/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/runtime/executor/small_conversion.h"

namespace ucp {
namespace {

struct Rounding {
  std::uint32_t float32;
  std::uint16_t bfloat16;
  std::uint16_t float16;
};

// The results of PyTorch 2.13 (on a CPU), with `f` the first column viewed as float32:
//   f.to(torch.bfloat16).view(torch.int16), f.to(torch.float16).view(torch.int16)
// Ties in both directions, carries into the exponent, the largest numbers and what lies above, subnormals and below,
// infinities, NaNs, and 20 from torch.randint(0, 2**32, (20,), generator=torch.Generator().manual_seed(7)).
constexpr Rounding kTable[] = {
    {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x00000001, 0x0000, 0x0000},
    {0x007FFFFF, 0x0080, 0x0000}, {0x00800000, 0x0080, 0x0000}, {0x3F800000, 0x3F80, 0x3C00},
    {0x3F808000, 0x3F80, 0x3C04}, {0x3F818000, 0x3F82, 0x3C0C}, {0x3F808001, 0x3F81, 0x3C04},
    {0x3F807FFF, 0x3F80, 0x3C04}, {0xBF808000, 0xBF80, 0xBC04}, {0x7F7FFFFF, 0x7F80, 0x7C00},
    {0x7F7F8000, 0x7F80, 0x7C00}, {0x7F7F7FFF, 0x7F7F, 0x7C00}, {0xFF7FFFFF, 0xFF80, 0xFC00},
    {0x7F800000, 0x7F80, 0x7C00}, {0xFF800000, 0xFF80, 0xFC00}, {0x7FC00000, 0xFFFF, 0x7E00},
    {0x7F800001, 0xFFFF, 0x7E00}, {0xFFFFFFFF, 0xFFFF, 0xFFFF}, {0x00008000, 0x0000, 0x0000},
    {0x00018000, 0x0002, 0x0000}, {0x00007FFF, 0x0000, 0x0000}, {0x477FE000, 0x4780, 0x7BFF},
    {0x477FEFFF, 0x4780, 0x7BFF}, {0x477FF000, 0x4780, 0x7C00}, {0x477FFFFF, 0x4780, 0x7C00},
    {0x47800000, 0x4780, 0x7C00}, {0xC77FF000, 0xC780, 0xFC00}, {0x38800000, 0x3880, 0x0400},
    {0x387FFFFF, 0x3880, 0x0400}, {0x387FE000, 0x3880, 0x0400}, {0x387FEFFF, 0x3880, 0x0400},
    {0x387FF000, 0x3880, 0x0400}, {0x38000000, 0x3800, 0x0200}, {0x33800000, 0x3380, 0x0001},
    {0x33000000, 0x3300, 0x0000}, {0x33000001, 0x3300, 0x0001}, {0x32FFFFFF, 0x3300, 0x0000},
    {0x33C00000, 0x33C0, 0x0002}, {0x34200000, 0x3420, 0x0002}, {0x34600000, 0x3460, 0x0004},
    {0x33BFFFFF, 0x33C0, 0x0001}, {0xB3C00000, 0xB3C0, 0x8002}, {0x3F801000, 0x3F80, 0x3C00},
    {0x3F803000, 0x3F80, 0x3C02}, {0x3F801001, 0x3F80, 0x3C01}, {0x3F800FFF, 0x3F80, 0x3C00},
    {0x38801000, 0x3880, 0x0400}, {0x38803000, 0x3880, 0x0402}, {0x37FFF000, 0x3800, 0x0200},
    {0x35A98765, 0x35AA, 0x0015}, {0x40490FDB, 0x4049, 0x4248}, {0xC2F6E979, 0xC2F7, 0xD7B7},
    {0x3EAAAAAB, 0x3EAB, 0x3555}, {0x7F000000, 0x7F00, 0x7C00}, {0x00400000, 0x0040, 0x0000},
    {0x3A32E4C4, 0x3A33, 0x1197}, {0x51A829F6, 0x51A8, 0x7C00}, {0xFA6CD0D3, 0xFA6D, 0xFC00},
    {0x74A13667, 0x74A1, 0x7C00}, {0x4ED9ECB9, 0x4EDA, 0x7C00}, {0x438D0A17, 0x438D, 0x5C68},
    {0x1634D159, 0x1635, 0x0000}, {0x6B5BFA2A, 0x6B5C, 0x7C00}, {0x0412B388, 0x0413, 0x0000},
    {0x871B97E6, 0x871C, 0x8000}, {0xDE69C5B0, 0xDE6A, 0xFC00}, {0x54B1E187, 0x54B2, 0x7C00},
    {0x6497DE00, 0x6498, 0x7C00}, {0xACA0EB37, 0xACA1, 0x8000}, {0xAC1CFC06, 0xAC1D, 0x8000},
    {0xB1AC0DBC, 0xB1AC, 0x8000}, {0x5891AEBF, 0x5892, 0x7C00}, {0xEDF58F38, 0xEDF6, 0xFC00},
    {0x4338B0B7, 0x4339, 0x59C6}, {0xC031FC70, 0xC032, 0xC190},
};

template <typename T>
const std::byte* BytesOf(const T& value) {
  return reinterpret_cast<const std::byte*>(&value);
}

TEST(RoundingTest, IsPyTorchs) {
  for (const Rounding& row : kTable) {
    auto value = std::bit_cast<float>(row.float32);
    if (std::isnan(value)) continue;  // Any NaN will do.
    EXPECT_EQ(RoundToBFloat16(value), row.bfloat16) << std::hex << row.float32;
    EXPECT_EQ(RoundToFloat16(value), row.float16) << std::hex << row.float32;
  }
}

TEST(RoundingTest, EveryRowIsARoundingAndItsNeighboursAreNot) {
  for (const Rounding& row : kTable) {
    bool nan = std::isnan(std::bit_cast<float>(row.float32));
    for (int off : {-1, 0, 1}) {
      auto bfloat16 = static_cast<std::uint16_t>(row.bfloat16 + off);
      auto float16 = static_cast<std::uint16_t>(row.float16 + off);
      if (nan && off != 0) continue;
      EXPECT_EQ(IsRoundingOf(BytesOf(row.float32), DType::kBFloat16, BytesOf(bfloat16)), off == 0);
      EXPECT_EQ(IsRoundingOf(BytesOf(row.float32), DType::kFloat16, BytesOf(float16)), off == 0);
    }
  }
}

TEST(RoundingTest, EveryNanIsTheRoundingOfEveryNanAndOfNothingElse) {
  std::uint16_t bfloat16_nan = 0xFF81;
  std::uint16_t float16_nan = 0xFC01;
  for (std::uint32_t nan : {0x7F800001U, 0xFFC00000U, 0x7FFFFFFFU}) {
    EXPECT_TRUE(IsRoundingOf(BytesOf(nan), DType::kBFloat16, BytesOf(bfloat16_nan)));
    EXPECT_TRUE(IsRoundingOf(BytesOf(nan), DType::kFloat16, BytesOf(float16_nan)));
    EXPECT_EQ(CountRoundingMismatches(BytesOf(nan), DType::kBFloat16, BytesOf(bfloat16_nan), 1), 0);
    std::uint16_t infinity = 0x7F80;
    EXPECT_EQ(CountRoundingMismatches(BytesOf(nan), DType::kBFloat16, BytesOf(infinity), 1), 1);
  }
  std::uint32_t infinity = 0x7F800000;
  EXPECT_EQ(CountRoundingMismatches(BytesOf(infinity), DType::kBFloat16, BytesOf(bfloat16_nan), 1), 1);
  EXPECT_FALSE(IsRoundingOf(BytesOf(infinity), DType::kFloat16, BytesOf(float16_nan)));
}

TEST(RoundingTest, AFloat32WeightIsItsMaster) {
  float one = 1;
  float more = std::nextafter(one, 2.0F);
  EXPECT_TRUE(IsRoundingOf(BytesOf(one), DType::kFloat32, BytesOf(one)));
  EXPECT_FALSE(IsRoundingOf(BytesOf(one), DType::kFloat32, BytesOf(more)));
}

// One by one, by the table's functions.
template <typename Round>
void ExpectCounted(DType low, Round round, std::uint16_t largest) {
  std::mt19937 random(3);
  for (std::size_t count : {1U, 255U, 256U, 257U, 100000U}) {
    std::vector<std::uint32_t> masters;
    std::vector<std::uint16_t> weights;
    std::int64_t mismatches = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto bits = static_cast<std::uint32_t>(random());
      std::uint16_t right = round(std::bit_cast<float>(bits));
      std::uint16_t weight = right;
      if (i % 3 == 0) weight = static_cast<std::uint16_t>(weight + random() % 3 - 1);
      masters.push_back(bits);
      weights.push_back(weight);
      bool is_nan = (weight & 0x7FFF) > largest;
      mismatches += std::isnan(std::bit_cast<float>(bits)) ? !is_nan : weight != right;
    }
    EXPECT_TRUE(count < 1000 || mismatches > 1000);
    EXPECT_EQ(CountRoundingMismatches(BytesOf(masters[0]), low, BytesOf(weights[0]), static_cast<std::int64_t>(count)),
              mismatches);
  }
}

TEST(RoundingTest, CountsWhatDiffers) {
  ExpectCounted(DType::kBFloat16, RoundToBFloat16, 0x7F80);
  ExpectCounted(DType::kFloat16, RoundToFloat16, 0x7C00);
}

TEST(RoundingTest, TheSlowRoundingOfOtherTestsAgrees) {
  std::mt19937 random(4);
  for (int i = 0; i < 100000; ++i) {
    auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(RoundToBFloat16(value), SlowBFloat16(value)) << value;
  }
}

}  // namespace
}  // namespace ucp
