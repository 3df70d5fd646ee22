#include "runtime/digest/keyed_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/unit/runtime/digest/random_bytes.h"
#include "tests/unit/runtime/digest/slow_sum.h"

namespace ucp {
namespace {

KeyedSum SumOf(std::uint64_t first, std::uint64_t item_bytes, std::span<const std::byte> bytes,
               DigestVersion version = kDigestVersion) {
  KeyedSum sum{version, {}};
  sum.AddElements(first, item_bytes, bytes);
  return sum;
}

TEST(KeyedSumTest, ElementsAreUnitsAtTheirPlaces) {
  std::mt19937_64 random(1);
  const std::vector<std::byte> bytes = RandomBytes(9600, random);
  for (std::uint64_t item : {1UL, 2UL, 4UL}) {
    EXPECT_EQ(SumOf(77, item, bytes).lanes, SlowUnits(77, item, bytes));
  }
  EXPECT_EQ(SumOf(77, 8, bytes).lanes, SlowUnits(154, 8, bytes));
  EXPECT_EQ(SumOf(77, 16, bytes).lanes, SlowUnits(308, 8, bytes));
}

TEST(KeyedSumTest, VersionOneIsTheSumThatWasWrittenDown) {
  std::mt19937_64 random(2);
  const std::vector<std::byte> bytes = RandomBytes(9600, random);
  for (std::uint64_t item : {1UL, 2UL, 4UL, 8UL, 16UL}) {
    for (std::uint64_t first : {0UL, 1UL, 3UL, 63UL, 1UL << 37}) {
      const auto some = std::span(bytes).first(item * 599);
      EXPECT_EQ(SumOf(first, item, some, DigestVersion::kLinear).lanes, SlowLinear(first * item, some))
          << "elements of " << item << " bytes from " << first;
    }
  }
}

TEST(KeyedSumTest, NoCutAndNoOrderMatters) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const DigestVersion version = round % 5 == 0 ? DigestVersion::kLinear : DigestVersion::kKeyed;
    const std::uint64_t item = 1UL << (round % 5);
    const std::uint64_t elements = 1 + random() % 5000;
    const std::vector<std::byte> bytes = RandomBytes(elements * item, random);
    const std::uint64_t first = random() % 3000;
    std::vector<KeyedSum> pieces;
    for (std::uint64_t done = 0; done < elements;) {
      const std::uint64_t count = std::min<std::uint64_t>(elements - done, 1 + random() % (round % 2 == 0 ? 9 : 2000));
      pieces.push_back(SumOf(first + done, item, std::span(bytes).subspan(done * item, count * item), version));
      done += count;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    SharedKeyedSum shared;
    KeyedSum sum{version, {}};
    for (const KeyedSum& piece : pieces) {
      shared.Add(piece);
      sum.Add(piece);
    }
    EXPECT_EQ(shared.Get(version), SumOf(first, item, bytes, version)) << "round " << round;
    EXPECT_EQ(sum, SumOf(first, item, bytes, version)) << "round " << round;
  }
}

// By construction: whatever a unit was and became, its blocks differ, and so do the exclusive-ors.
TEST(KeyedSumTest, EveryChangedBitIsSeen) {
  std::mt19937_64 random(4);
  for (std::uint64_t item : {1UL, 2UL, 4UL, 8UL, 16UL}) {
    std::vector<std::byte> bytes = RandomBytes(40 * item, random);
    const KeyedSum right = SumOf(1000, item, bytes);
    std::set<SumLanes> seen = {right.lanes};
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const std::byte flip = static_cast<std::byte>(1U << (bit % 8));
      bytes[bit / 8] ^= flip;
      const KeyedSum changed = SumOf(1000, item, bytes);
      for (std::size_t lane = 0; lane < 4; ++lane) EXPECT_NE(changed.lanes[lane], right.lanes[lane]) << "bit " << bit;
      seen.insert(changed.lanes);
      bytes[bit / 8] ^= flip;
    }
    EXPECT_EQ(seen.size(), 1 + bytes.size() * 8);
  }
}

TEST(KeyedSumTest, ZerosCountToo) {
  const std::vector<std::byte> zeros(8);
  EXPECT_NE(SumOf(0, 4, zeros), KeyedSum());
  EXPECT_NE(SumOf(0, 4, zeros), SumOf(1, 4, zeros));
}

TEST(KeyedSumTest, DigestsSayWhatTheyAreOf) {
  const KeyedSum sum = SumOf(0, 4, std::vector<std::byte>(24));
  const std::vector<std::int64_t> shape = {2, 3};
  const std::vector<std::int64_t> turned = {3, 2};
  const std::vector<std::int64_t> flat = {6};
  const std::set<std::string> digests = {
      FileDigest(sum, 24),
      FileDigest(sum, 23),
      StateDigestOf(sum, {"float32", shape, "exp_avg"}),
      StateDigestOf(sum, {"float32", turned, "exp_avg"}),
      StateDigestOf(sum, {"float32", flat, "exp_avg"}),
      StateDigestOf(sum, {"int32", shape, "exp_avg"}),
      StateDigestOf(sum, {"float32", shape, "exp_avg_sq"}),
      StateDigestOf(sum, {"float32", {}, "exp_avg"}),
  };
  EXPECT_EQ(digests.size(), 8U);
  const KeyedSum earlier{DigestVersion::kLinear, sum.lanes};  // Said the dtype and how many elements there are.
  EXPECT_EQ(StateDigestOf(earlier, {"float32", shape, "a"}), StateDigestOf(earlier, {"float32", flat, "b"}));
  EXPECT_NE(StateDigestOf(earlier, {"float32", shape, "a"}), StateDigestOf(earlier, {"int32", shape, "a"}));
}

}  // namespace
}  // namespace ucp
