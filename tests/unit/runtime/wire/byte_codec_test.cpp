#include "runtime/wire/byte_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp::wire {
namespace {

using ::testing::IsEmpty;

std::string Message() {
  ByteWriter writer;
  writer.Add(std::uint64_t{0x0102030405060708});
  writer.Add("a\0b\xff");
  writer.Add(std::string_view("\0x", 2));
  writer.Add(std::uint64_t{2});
  writer.Add(std::uint64_t{7});
  writer.Add(std::uint64_t{8});
  return writer.bytes();
}

TEST(ByteCodec, TakesWhatWasAdded) {
  const std::string bytes = Message();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Number(), 0x0102030405060708U);
  EXPECT_EQ(reader.Text(), "a");  // A C string ends at its NUL.
  EXPECT_EQ(reader.Text(), std::string("\0x", 2));
  ASSERT_EQ(reader.Count(), 2U);
  EXPECT_EQ(reader.Number(), 7U);
  EXPECT_FALSE(reader.is_at_end());
  EXPECT_EQ(reader.Number(), 8U);
  EXPECT_TRUE(reader.is_at_end());
}

TEST(ByteCodec, TheBytesAreThoseOfTheDescription) {
  ByteWriter writer;
  writer.Add(std::uint64_t{258});
  writer.Add("no");
  const char expected[] =
      "ucpwire\x01"
      "\x02\x01\0\0\0\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "no";
  EXPECT_EQ(writer.bytes(), std::string(expected, sizeof(expected) - 1));
}

TEST(ByteCodec, NothingIsAnEmptyMessage) {
  EXPECT_THAT(ByteWriter().bytes(), IsEmpty());
  ByteReader reader("");
  EXPECT_TRUE(reader.is_at_end());
  EXPECT_EQ(reader.Number(), 0U);
  EXPECT_TRUE(reader.has_failed());
  ByteWriter with_empty_text;
  with_empty_text.Add("");
  EXPECT_EQ(with_empty_text.bytes().size(), kHeadBytes + 8);
}

TEST(ByteCodec, AnotherHeadFailsAtOnce) {
  const std::string good = Message();
  for (std::size_t at = 0; at < kHeadBytes; ++at) {
    std::string other = good;
    other[at] = static_cast<char>(other[at] + 1);
    EXPECT_TRUE(ByteReader(other).has_failed()) << "byte " << at;
  }
  EXPECT_TRUE(ByteReader(std::string_view(good).substr(0, kHeadBytes - 1)).has_failed());
}

// However short the message is, taking more than it has fails, and fails for good.
TEST(ByteCodec, NeverReadsBehindTheEnd) {
  const std::string good = Message();
  for (std::size_t bytes = kHeadBytes; bytes < good.size(); ++bytes) {
    const std::string cut = good.substr(0, bytes);
    ByteReader reader(cut);
    reader.Number();
    reader.Text();
    reader.Text();
    for (std::uint64_t left = reader.Count(); left > 0; --left) reader.Number();
    EXPECT_TRUE(reader.has_failed()) << bytes << " bytes";
    EXPECT_THAT(reader.left(), IsEmpty());
    EXPECT_EQ(reader.Number(), 0U);
    EXPECT_FALSE(reader.is_at_end());
  }
}

TEST(ByteCodec, CountsAreBoundedByTheBytes) {
  for (const auto& [count, fits] : std::vector<std::pair<std::uint64_t, bool>>{{2, true}, {3, false}, {~0ULL, false}}) {
    ByteWriter writer;
    for (const std::uint64_t number : {count, std::uint64_t{1}, std::uint64_t{2}}) writer.Add(number);
    ByteReader reader(writer.bytes());
    EXPECT_EQ(reader.Count(), fits ? count : 0);
    EXPECT_EQ(reader.has_failed(), !fits);
  }
}

}  // namespace
}  // namespace ucp::wire
