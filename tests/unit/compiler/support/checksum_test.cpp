#include "compiler/support/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ucp {
namespace {

// The definition, bit by bit.
std::uint32_t SlowCrc32(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

TEST(ChecksumTest, Crc32IsThatOfZipArchives) {
  EXPECT_EQ(Crc32(""), 0u);
  EXPECT_EQ(Crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(Crc32("some text"), SlowCrc32("some text"));
}

TEST(ChecksumTest, RangesCombine) {
  std::string first = "the first range";
  std::string second = "and the second one";
  std::uint32_t both = SlowCrc32(first + second);
  EXPECT_EQ(CombineCrc32(Crc32(first), Crc32(second), second.size()), both);
  EXPECT_EQ(ExtendCrc32(Crc32(first), std::as_bytes(std::span(second))), both);
  EXPECT_EQ(CombineCrc32(Crc32(first), 0, 0), Crc32(first));
}

TEST(ChecksumTest, ZerosAreNotLookedAt) {
  for (std::uint64_t bytes : std::vector<std::uint64_t>{0, 1, 2, 3, 7, 64, 1000}) {
    EXPECT_EQ(Crc32OfZeros(bytes), SlowCrc32(std::string(bytes, '\0'))) << bytes;
  }
  std::uint64_t large = std::uint64_t{5} << 30;
  std::uint32_t half = Crc32OfZeros(large / 2);
  EXPECT_EQ(Crc32OfZeros(large), CombineCrc32(half, half, large / 2));
}

TEST(ChecksumTest, ContentHashesTellContentsApart) {
  EXPECT_EQ(ContentHash("").size(), 32u);
  EXPECT_EQ(ContentHash("a"), ContentHash("a"));
  EXPECT_NE(ContentHash("a"), ContentHash("b"));
  EXPECT_NE(ContentHash64("a"), ContentHash64("b"));
  EXPECT_EQ(ContentHash(""), "99aa06d3014798d86001c324468d497f");  // Of the XXH3 specification.
}

TEST(ChecksumTest, AContentHashOfTwoPiecesIsThatOfBothTogether) {
  std::string text;
  for (std::uint32_t i = 0; i < 5000; ++i) text += static_cast<char>(i * 2654435761u >> 24);
  for (std::size_t first : {0u, 1u, 24u, 255u, 256u, 257u, 4096u, 5000u}) {
    EXPECT_EQ(ContentHash(std::string_view(text).substr(0, first), std::string_view(text).substr(first)),
              ContentHash(text))
        << first;
  }
}

}  // namespace
}  // namespace ucp
