#include "compiler/formats/pytorch/archive/zip_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kLocal = "PK\x03\x04";
constexpr std::string_view kCentral = "PK\x01\x02";
constexpr std::string_view kEnd64 = "PK\x06\x06";
constexpr std::string_view kLocator = "PK\x06\x07";
constexpr std::string_view kEnd = "PK\x05\x06";

std::string DirectoryResult(const std::string& bytes) {
  auto directory = ReadZipDirectory(MemoryFile(bytes));
  if (!directory) return TakeFailure(directory.takeError()).message;
  std::string text = directory->root + ":";
  for (const ZipRecord& record : directory->records) {
    text += fmt::format(" {} {}+{} {:08x}", record.name, record.data.offset, record.data.bytes, record.crc32);
  }
  return text;
}

// A damaged archive: what is changed, at which place.
struct Archive {
  std::string bytes = Sample("views.pt");

  Archive& Put(std::string_view signature, int n, std::size_t offset, std::uint64_t value, int width) {
    PutField(bytes, Place(bytes, signature, n) + offset, value, width);
    return *this;
  }
};

// `python -m zipfile -l` and the offsets in the file agree with these.
TEST(ZipReader, ListsWhatTorchWrote) {
  const std::string bytes = Sample("views.pt");
  auto directory = ReadZipDirectory(MemoryFile(bytes));
  ASSERT_TRUE(static_cast<bool>(directory));
  EXPECT_EQ(directory->root, "views");
  std::vector<std::string> names;
  for (const ZipRecord& record : directory->records) {
    names.push_back(record.name);
    EXPECT_EQ(record.data.offset % 64, 0u);
  }
  EXPECT_THAT(names, testing::ElementsAre("data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0",
                                          "data/1", "data/2", "version", ".data/serialization_id"));
  const ZipRecord& version = directory->records[7];
  EXPECT_EQ(bytes.substr(version.data.offset, version.data.bytes), "3\n");
  EXPECT_EQ(directory->records[4].data.bytes, 48u);
}

TEST(ZipReader, ReadsAnArchiveWithinAFile) {
  const std::string bytes = Sample("views.pt");
  auto alone = ReadZipDirectory(MemoryFile(bytes));
  auto within = ReadZipDirectory(MemoryFile("before" + bytes + "behind"), {6, bytes.size()});
  ASSERT_TRUE(alone && within);
  EXPECT_EQ(within->records[4].data.offset, alone->records[4].data.offset + 6);
  EXPECT_EQ(within->records[4].name, "data/0");
  auto beyond = ReadZipDirectory(MemoryFile(bytes), {6, bytes.size()});
  ASSERT_FALSE(beyond);
  EXPECT_THAT(TakeFailure(beyond.takeError()).message, HasSubstr("is beyond the end of the file"));
}

// So many empty records.
std::string ArchiveOf(std::size_t records) {
  std::string bytes, directory;
  auto put = [](std::string& header, std::size_t offset, std::uint64_t value, int width) {
    PutField(header, offset, value, width);
  };
  for (std::size_t i = 0; i < records; ++i) {
    const std::string name = fmt::format("a/{}", i);
    std::string central = std::string(kCentral) + std::string(42, '\0');
    put(central, 28, name.size(), 2);
    put(central, 42, bytes.size(), 4);
    directory += central + name;
    std::string local = std::string(kLocal) + std::string(26, '\0');
    put(local, 26, name.size(), 2);
    bytes += local + name;
  }
  std::string end = std::string(kEnd) + std::string(18, '\0');
  put(end, 8, records, 2);
  put(end, 10, records, 2);
  put(end, 12, directory.size(), 4);
  put(end, 16, bytes.size(), 4);
  return bytes + directory + end;
}

// Notes what is asked for, and which local headers were read without.
class AskedFile : public MemoryFile {
 public:
  using MemoryFile::MemoryFile;
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    UCP_RETURN_IF_ERROR(MemoryFile::ReadAt(offset, buffer));
    const std::string_view text(reinterpret_cast<const char*>(buffer.data()), buffer.size());
    if (text.starts_with(kLocal) && !asked_for.contains({offset, buffer.size()})) ++not_asked_for;
    return llvm::Error::success();
  }
  void StartReading(std::uint64_t offset, std::uint64_t bytes) const override {
    EXPECT_TRUE(asked_for.emplace(offset, bytes).second) << offset << " twice";
  }
  mutable std::set<std::pair<std::uint64_t, std::uint64_t>> asked_for;
  mutable std::size_t not_asked_for = 0;
};

// On a disk that answers one request after the other, 20,000 tensors would be waited for one by one.
TEST(ZipReader, AsksForManyLocalHeadersBeforeItReadsThem) {
  for (const auto& [records, asked] : {std::pair(3, 0), {17, 17}, {512, 512}, {1300, 1300}}) {
    const AskedFile file(ArchiveOf(static_cast<std::size_t>(records)));
    auto directory = ReadZipDirectory(file);
    ASSERT_TRUE(static_cast<bool>(directory));
    EXPECT_EQ(directory->records.size(), static_cast<std::size_t>(records));
    EXPECT_EQ(file.asked_for.size(), static_cast<std::size_t>(asked));
    EXPECT_EQ(file.not_asked_for, static_cast<std::size_t>(records - asked));
  }
}

TEST(ZipReader, RefusesTruncationAtEveryByte) {
  const std::string bytes = Sample("views.pt");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DirectoryResult(bytes.substr(0, size)), HasSubstr("cut off")) << size;
  }
}

TEST(ZipReader, RefusesADamagedEnd) {
  EXPECT_THAT(DirectoryResult(Sample("views.pt") + "x"), HasSubstr("does not end with a zip archive's end record"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kLocator, 0, 8, 1u << 30, 8).bytes),
              HasSubstr("64-bit end record should be at 1073741824, beyond its end"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kLocator, 0, 8, 64, 8).bytes),
              HasSubstr("has no 64-bit end record at 64, where its locator points"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 32, 1000, 8).bytes), HasSubstr("cannot hold the 1000 records"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 32, ~std::uint64_t{0}, 8).bytes), HasSubstr("cannot hold the"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 32, 8, 8).bytes), HasSubstr("bytes are left over"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 40, ~std::uint64_t{0}, 8).bytes),
              HasSubstr("is beyond the end record at"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 48, ~std::uint64_t{0}, 8).bytes),
              HasSubstr("is beyond the end record at"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kEnd64, 0, 48, 7, 8).bytes),
              HasSubstr("byte 0 of the zip directory is not the beginning of a record's entry"));
}

TEST(ZipReader, ReadsAnArchiveWithoutA64BitEnd) {
  const std::string bytes = Sample("views.pt");
  const std::string small = bytes.substr(0, Place(bytes, kEnd64)) + bytes.substr(Place(bytes, kEnd));
  EXPECT_EQ(DirectoryResult(small), DirectoryResult(bytes));
}

TEST(ZipReader, RefusesRecordsThatAreNotStored) {
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 10, 8, 2).bytes),
              HasSubstr("the record `views/data/0` is compressed, which PyTorch never does"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 8, 1, 2).bytes), HasSubstr("`views/data/0` is encrypted"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 20, 47, 4).bytes),
              HasSubstr("the record `views/data/0` is stored in 47 bytes and said to have 48"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kLocal, 4, 8, 8, 2).bytes),
              HasSubstr("disagree on its size, form or checksum"));
}

TEST(ZipReader, RefusesRecordsOutsideTheData) {
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 42, 0xfffffff0, 4).bytes),
              HasSubstr("the record `views/data/0` would begin at 4294967280, outside the data"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 42, 0xffffffff, 4).bytes),
              HasSubstr("would begin at 4294967295, outside the data"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 8, 20, 4000, 4).Put(kCentral, 8, 24, 4000, 4).bytes),
              HasSubstr("`views/.data/serialization_id` of 4000 bytes at"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kLocal, 8, 28, 0xffff, 2).bytes), HasSubstr("reaches beyond the data"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 42, 3, 4).bytes),
              HasSubstr("there is no record at 3, where `views/data/0` should begin"));
}

TEST(ZipReader, RefusesRecordsThatOverlap) {
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 4, 20, 200, 4).Put(kCentral, 4, 24, 200, 4).bytes),
              HasSubstr("the records `views/data/0` and `views/data/1` overlap at"));
}

TEST(ZipReader, RefusesNamesThatDisagree) {
  Archive archive;
  archive.bytes[Place(archive.bytes, "views/data/1", 1) + 11] = '2';  // In the directory: now twice.
  EXPECT_THAT(DirectoryResult(archive.bytes), HasSubstr("the zip directory has two records named `views/data/2`"));
  archive.bytes[Place(archive.bytes, "views/data/2", 1) + 11] = '7';
  EXPECT_THAT(DirectoryResult(archive.bytes), HasSubstr("has another name than `views/data/7`"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kLocal, 4, 26, 5, 2).bytes), HasSubstr("has another name than"));
}

TEST(ZipReader, RefusesADirectoryThatEndsWithinAnEntry) {
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 8, 28, 4000, 2).bytes),
              HasSubstr("the zip directory ends within the entry at its byte"));
  EXPECT_THAT(DirectoryResult(Archive().Put(kCentral, 3, 20, 0xffffffff, 4).bytes),
              HasSubstr("is stored in 4294967295"));
}

}  // namespace
}  // namespace ucp::pytorch
