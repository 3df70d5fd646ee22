// The fast loops, on every kind of vector unit that this processor has, against the definition.
#include "runtime/digest/unit_sum.h"

#define HWY_WANT_AVX3_DL
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "runtime/digest/aes_round.h"
#include "tests/unit/runtime/digest/random_bytes.h"
#include "tests/unit/runtime/digest/slow_sum.h"

namespace ucp {
namespace {

// Calls `check` once for each; afterwards the best one is taken again.
template <typename Check>
void OnEachTarget(const Check& check) {
  int targets = 0;
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
    ++targets;
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(targets, 1);
}

SumLanes SumOf(std::uint64_t place, std::size_t unit_bytes, std::span<const std::byte> bytes) {
  SumLanes lanes{};
  AddUnits(place, unit_bytes, bytes, lanes);
  return lanes;
}

// FIPS 197, appendix B: what the second round starts with, from what the first one does and its key.
TEST(AesRoundTest, IsTheRoundOfTheStandard) {
  constexpr AesBlock kState = {0xbee33d19, 0x2be2f4a0, 0x2a8dc69a, 0x0848f8e9};
  constexpr AesBlock kKey = {0x17fefaa0, 0xb12c5488, 0x3939a323, 0x05766c2a};
  constexpr AesBlock kNext = {0xf27f9ca4, 0x2b359f68, 0x43ea5b6b, 0x49506a02};
  EXPECT_EQ(AesRound(kState, kKey), kNext);
}

TEST(UnitSumTest, IsTheSumThatIsWrittenDown) {
  std::mt19937_64 random(1);
  const std::vector<std::byte> bytes = RandomBytes(24000, random);
  OnEachTarget([&] {
    for (std::size_t unit_bytes : {1UL, 2UL, 4UL, 8UL}) {
      for (std::size_t units : {0UL, 1UL, 2UL, 7UL, 8UL, 15UL, 16UL, 17UL, 63UL, 129UL, 1023UL, 1024UL, 2300UL}) {
        for (std::uint64_t place : {0UL, 2UL, 6UL, 14UL, 16UL, 1022UL, 1024UL, (1UL << 40) + 8, (1UL << 62) - 2}) {
          const auto some = std::span(bytes).subspan(units % 3, units * unit_bytes);
          ASSERT_EQ(SumOf(place, unit_bytes, some), SlowUnits(place, unit_bytes, some))
              << units << " units of " << unit_bytes << " bytes at " << place;
        }
      }
    }
  });
}

TEST(UnitSumTest, OddPlacesToo) {
  std::mt19937_64 random(2);
  const std::vector<std::byte> bytes = RandomBytes(400, random);
  OnEachTarget([&] {
    for (std::uint64_t place : {1UL, 3UL, 15UL, 1023UL, 1025UL}) {
      for (std::size_t unit_bytes : {1UL, 2UL, 4UL}) {
        ASSERT_EQ(SumOf(place, unit_bytes, bytes), SlowUnits(place, unit_bytes, bytes)) << place;
      }
    }
  });
}

}  // namespace
}  // namespace ucp
