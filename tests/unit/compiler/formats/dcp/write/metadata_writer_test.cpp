// That PyTorch reads the result is seen in tests/engine/test_dcp_write.py; here is what no small folder has.
#include "compiler/formats/dcp/write/metadata_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/dcp/metadata.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;

WrittenEntry TensorOf(EntryPath path, std::vector<WrittenChunk> chunks, std::vector<std::int64_t> shape) {
  return {.path = std::move(path),
          .is_tensor = true,
          .dtype = DType::kBFloat16,
          .shape = std::move(shape),
          .chunks = std::move(chunks)};
}

// Numbers of one, two, four and eight bytes, and of no use to a reader with 32 bits.
TEST(MetadataWriterTest, NumbersOfEverySize) {
  constexpr std::int64_t kRows = std::int64_t{1} << 40;
  const std::vector<WrittenEntry> entries = {
      TensorOf({"a"}, {{{0, 0}, {300, 1}, 0, 70000, 255}, {{300, 0}, {kRows - 300, 1}, 1, std::uint64_t{3} << 31, 256}},
               {kRows, 1})};
  const std::vector<std::string> files = {"__0_0.distcp", "__1_0.distcp"};
  for (const TorchRelease release : {TorchRelease::kUpTo23, TorchRelease::kSince24}) {
    const std::string pickle = WriteMetadata(entries, files, release);
    const Metadata read = llvm::cantFail(ReadMetadata(pickle));
    ASSERT_EQ(read.entries.size(), 1);
    EXPECT_THAT(read.entries[0].shape, ElementsAre(kRows, 1));
    ASSERT_EQ(read.entries[0].chunks.size(), 2);
    const Chunk& last = read.entries[0].chunks[1];
    EXPECT_THAT(last.offsets, ElementsAre(300, 0));
    EXPECT_THAT(last.sizes, ElementsAre(kRows - 300, 1));
    EXPECT_EQ(read.files[last.place.file], "__1_0.distcp");
    EXPECT_EQ(last.place.offset, std::uint64_t{3} << 31);
    EXPECT_EQ(last.place.bytes, 256);
    EXPECT_EQ(read.entries[0].chunks[0].place.offset, 70000);
  }
}

// Dicts are filled in groups of a thousand.
TEST(MetadataWriterTest, ThousandsOfEntries) {
  for (const std::size_t count : {0U, 1U, 999U, 1000U, 1001U, 2500U}) {
    std::vector<WrittenEntry> entries;
    for (std::size_t i = 0; i < count; ++i) {
      WrittenChunk chunk{{}, {}, 0, 100 * i, 90};
      entries.push_back({.path = {"list", static_cast<std::int64_t>(i)}, .shape = {}, .chunks = {chunk}});
    }
    const std::vector<std::string> files = {"__0_0.distcp"};
    const std::string pickle = WriteMetadata(entries, files, TorchRelease::kSince24);
    const Metadata read = llvm::cantFail(ReadMetadata(pickle));
    ASSERT_EQ(read.entries.size(), count);
    if (count == 0) continue;
    EXPECT_EQ(read.entries.back().key, "list." + std::to_string(count - 1));
    EXPECT_THAT(read.entries.back().path,
                ElementsAre(PathPart("list"), PathPart(static_cast<std::int64_t>(count - 1))));
  }
}

}  // namespace
}  // namespace ucp::dcp
