#include "runtime/digest/keyed_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace ucp {
namespace {

std::vector<std::byte> RandomBytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

KeyedSum SumOf(std::uint64_t place, std::span<const std::byte> bytes) {
  KeyedSum sum;
  sum.Add(place, bytes);
  return sum;
}

// docs/digests.md, one byte at a time.
std::uint64_t SplitMix(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

KeyedSum SlowSum(std::uint64_t place, std::span<const std::byte> bytes) {
  KeyedSum sum;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint64_t n = (place + i) / 4;
    std::uint64_t part = std::to_integer<std::uint64_t>(bytes[i]) << (8 * ((place + i) % 4));
    for (std::uint64_t lane = 0; lane < 4; ++lane) {
      std::uint64_t t = SplitMix(256 * lane + n % 256) >> 32 | 1;
      std::uint64_t r = SplitMix(SplitMix(n / 256) + lane + 1024) | 1;
      sum.lanes[lane] += part * t * r;
    }
  }
  return sum;
}

TEST(KeyedSumTest, IsTheSumThatIsWrittenDown) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes = RandomBytes(9000, random);
  for (std::size_t count : {0UL, 1UL, 3UL, 4UL, 5UL, 8UL, 15UL, 64UL, 1023UL, 1024UL, 1025UL, 2048UL, 9000UL}) {
    for (std::uint64_t place : {0UL, 1UL, 2UL, 3UL, 4UL, 1020UL, 1021UL, 1024UL, (1UL << 40) + 7}) {
      std::span<const std::byte> some = std::span(bytes).first(count);
      EXPECT_EQ(SumOf(place, some), SlowSum(place, some)) << count << " bytes at " << place;
    }
  }
}

TEST(KeyedSumTest, NoCutAndNoOrderMatters) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> bytes = RandomBytes(1 + random() % 20000, random);
    std::uint64_t place = random() % 5000;
    std::vector<KeyedSum> pieces;
    for (std::size_t done = 0; done < bytes.size();) {
      std::size_t count = std::min<std::size_t>(bytes.size() - done, 1 + random() % (round % 2 == 0 ? 9 : 3000));
      pieces.push_back(SumOf(place + done, std::span(bytes).subspan(done, count)));
      done += count;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    SharedKeyedSum sum;
    for (const KeyedSum& piece : pieces) sum.Add(piece);
    EXPECT_EQ(sum.Get(), SumOf(place, bytes)) << "round " << round;
  }
}

TEST(KeyedSumTest, EveryChangedBitIsSeen) {
  std::mt19937_64 random(3);
  std::vector<std::byte> bytes = RandomBytes(3000, random);
  const KeyedSum right = SumOf(0, bytes);
  std::set<std::string> digests = {FileDigest(right, bytes.size())};
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    std::byte flip = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= flip;
    KeyedSum changed = SumOf(0, bytes);
    for (std::size_t lane = 0; lane < 4; ++lane) EXPECT_NE(changed.lanes[lane], right.lanes[lane]) << "bit " << bit;
    digests.insert(FileDigest(changed, bytes.size()));
    bytes[bit / 8] ^= flip;
  }
  EXPECT_EQ(digests.size(), 1 + (bytes.size() * 8 + 6) / 7);
}

TEST(KeyedSumTest, ExchangedAndMovedWordsAreSeen) {
  std::mt19937_64 random(4);
  std::vector<std::byte> bytes = RandomBytes(64 * 1024, random);
  const KeyedSum right = SumOf(0, bytes);
  for (std::size_t distance : {4UL, 8UL, 1024UL, 2048UL, 32UL * 1024}) {
    std::vector<std::byte> exchanged = bytes;
    std::swap_ranges(exchanged.begin(), exchanged.begin() + 4,
                     exchanged.begin() + static_cast<std::ptrdiff_t>(distance));
    EXPECT_NE(SumOf(0, exchanged), right) << distance;
    std::vector<std::byte> moved = bytes;
    std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(distance), moved.end());
    EXPECT_NE(SumOf(0, moved), right) << distance;
  }
}

TEST(KeyedSumTest, DigestsSayWhatTheyAreOf) {
  KeyedSum nothing;
  EXPECT_NE(FileDigest(nothing, 8), FileDigest(nothing, 12));
  EXPECT_NE(ElementsDigest(nothing, "float32", 2), ElementsDigest(nothing, "int32", 2));
  EXPECT_NE(ElementsDigest(nothing, "float32", 2), ElementsDigest(nothing, "float32", 3));
}

}  // namespace
}  // namespace ucp
