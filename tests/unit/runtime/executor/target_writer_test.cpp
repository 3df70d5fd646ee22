#include "runtime/executor/target_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "compiler/support/checksum.h"
#include "runtime/storage/watched_file_system.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

constexpr std::uint64_t kRecordBytes = 16;
constexpr std::uint64_t kBetween = 8;
constexpr std::size_t kRecords = 4;

// A file as an archive is one: a header, records with the checksum of the one before between them, and all checksums
// once more in its tail.
//
//   aaaaaaaa | record 0 | aa CRC0 aa | record 1 | aa CRC1 aa | record 2 | aa CRC2 aa | record 3 | aa CRC0 .. CRC3 aa
class ArchiveToWrite {
 public:
  ArchiveToWrite() {
    plan_.target.files.push_back({"archive", 0, ""});
    AddBlob(kBetween, {});
    for (std::size_t r = 0; r < kRecords; ++r) {
      plan_.target.records.push_back({FileId(0), content_.size(), kRecordBytes, std::nullopt});
      for (std::size_t i = 0; i < kRecordBytes; ++i) content_ += static_cast<char>('0' + 16 * r + i);
      if (r + 1 < kRecords) AddBlob(kBetween, {r});
    }
    AddBlob(2 + 4 * kRecords + 2, {0, 1, 2, 3});
    plan_.target.files[0].bytes = content_.size();
  }

  const Plan& plan() const { return plan_; }
  const std::string& content() const { return content_; }

  WrittenRange Range(std::size_t record, std::uint64_t begin = 0, std::uint64_t end = kRecordBytes) const {
    return {RecordId(record), begin, end - begin, std::nullopt};
  }

  // The memory of a thread, from the first range to the last: other bytes between them.
  std::string Memory(std::span<const WrittenRange> ranges) const {
    auto place = [&](const WrittenRange& range) { return plan_.target.record(range.record).begin + range.offset; };
    const std::uint64_t begin = place(ranges.front());
    std::string memory(place(ranges.back()) + ranges.back().bytes - begin, '?');
    for (const WrittenRange& range : ranges) {
      memory.replace(place(range) - begin, range.bytes, content_, place(range), range.bytes);
    }
    return memory;
  }

 private:
  void AddBlob(std::size_t bytes, const std::vector<std::size_t>& checksums_of) {
    std::string blob(bytes, 'a');
    std::string filled = blob;
    for (std::size_t i = 0; i < checksums_of.size(); ++i) {
      const Record& record = plan_.target.records[checksums_of[i]];
      const std::uint32_t crc32 = Crc32(content_.substr(record.begin, record.bytes));
      std::memset(blob.data() + 2 + 4 * i, 0, sizeof(crc32));
      std::memcpy(filled.data() + 2 + 4 * i, &crc32, sizeof(crc32));
      plan_.crc_fields.push_back({FileId(0), content_.size() + 2 + 4 * i, RecordId(checksums_of[i])});
    }
    plan_.placements.push_back({FileId(0), content_.size(), BlobId(plan_.blobs.size())});
    plan_.blobs.push_back(std::move(blob));
    content_ += filled;
  }

  Plan plan_;
  std::string content_;
};

class TargetWriterTest : public ::testing::Test {
 protected:
  // Writes these chunks and says how many writes it took.
  int Write(std::vector<std::vector<WrittenRange>> chunks) {
    int writes = 0;
    FileWatchers watchers;
    watchers.after_call = [&](const FileCall& call) {
      if (call.what == "write") ++writes;
    };
    const std::unique_ptr<FileSystem> files = WatchFiles(RealFileSystem(), std::move(watchers));
    TargetWriter writer(archive_.plan(), folder_.path(), *files, {{static_cast<std::uint32_t>(chunks.size()), false}},
                        {}, 8);
    std::string scratch_bytes(4096, '\0');
    const std::span<std::byte> scratch = std::as_writable_bytes(std::span(scratch_bytes));
    EXPECT_FALSE(writer.CreateFiles({1, nullptr}, {&scratch, 1}));
    for (std::vector<WrittenRange>& ranges : chunks) {
      std::string memory = archive_.Memory(ranges);
      EXPECT_FALSE(writer.WriteChunk(ranges, std::as_writable_bytes(std::span(memory)), scratch));
    }
    EXPECT_EQ(writer.files_finished(), 1U);
    digest_ = writer.FileDigests().front();
    return writes;
  }

  std::string Written() {
    auto text = ReadWholeFile(RealFileSystem(), folder_.Path("archive"), 1 << 20);
    return text ? *text : TakeFailure(text.takeError()).message;
  }

  std::string DigestOfContent() const {
    FileSums sums({archive_.content().size()});
    sums.Add(0, 0, std::as_bytes(std::span(archive_.content())));
    return sums.Digest(0);
  }

  ScratchFolder folder_;
  ArchiveToWrite archive_;
  std::string digest_;
};

TEST_F(TargetWriterTest, HeadersBetweenTheRangesOfAChunkGoWithIt) {
  const ArchiveToWrite& a = archive_;
  // The two chunks, what is between them, the header, and the tail.
  EXPECT_EQ(Write({{a.Range(0), a.Range(1), a.Range(2)}, {a.Range(3)}}), 5);
  EXPECT_EQ(Written(), archive_.content());
  EXPECT_EQ(digest_, DigestOfContent());
}

TEST_F(TargetWriterTest, AHeaderWithAChecksumThatIsNotKnownYetWaits) {
  const ArchiveToWrite& a = archive_;
  // Of record 1 one half is in either chunk, so what is behind it is in neither.
  EXPECT_EQ(Write({{a.Range(0), a.Range(1, 0, 8)}, {a.Range(1, 8, 16), a.Range(2), a.Range(3)}}), 6);
  EXPECT_EQ(Written(), archive_.content());
  EXPECT_EQ(digest_, DigestOfContent());
}

TEST_F(TargetWriterTest, WhatLiesBetweenAndIsNotReadyMadeIsLeftAlone) {
  const ArchiveToWrite& a = archive_;
  EXPECT_EQ(Write({{a.Range(0), a.Range(2)}, {a.Range(1)}, {a.Range(3)}}), 9);  // As if every range came by itself.
  EXPECT_EQ(Written(), archive_.content());
  EXPECT_EQ(digest_, DigestOfContent());
}

// A small file is collected in memory. Bytes that are neither elements nor ready-made are zero there, whatever the
// thread's memory has between the ranges of the only chunk.
TEST(TargetWriterOfSmallFiles, WhatNobodyFillsIsZero) {
  constexpr std::uint64_t kBytes = 8;
  Plan plan;
  plan.target.files.push_back({"small", 3 * kBytes, ""});
  for (std::uint64_t begin : {std::uint64_t{0}, 2 * kBytes}) {
    plan.target.records.push_back({FileId(0), begin, kBytes, std::nullopt});
  }
  const ScratchFolder folder;
  TargetWriter writer(plan, folder.path(), RealFileSystem(), {{1, false}}, {{FileId(0), kBytes, 2 * kBytes}}, 8);
  std::string scratch_bytes(64, '?');
  const std::span<std::byte> scratch = std::as_writable_bytes(std::span(scratch_bytes));
  ASSERT_FALSE(writer.CreateFiles({1, nullptr}, {&scratch, 1}));
  std::vector<WrittenRange> ranges = {{RecordId(0), 0, kBytes, std::nullopt}, {RecordId(1), 0, kBytes, std::nullopt}};
  std::string memory = "elements????????ELEMENTS";
  ASSERT_FALSE(writer.WriteChunk(ranges, std::as_writable_bytes(std::span(memory)), scratch));
  auto written = ReadWholeFile(RealFileSystem(), folder.Path("small"), 64);
  ASSERT_TRUE(static_cast<bool>(written));
  EXPECT_EQ(*written, std::string("elements\0\0\0\0\0\0\0\0ELEMENTS", 24));
}

}  // namespace
}  // namespace ucp
