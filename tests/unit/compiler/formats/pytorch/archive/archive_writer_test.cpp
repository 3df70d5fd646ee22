#include "compiler/formats/pytorch/archive/archive_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "compiler/formats/pytorch/archive/zip_format.h"
#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

// The file with its data and checksums filled in.
std::string Filled(const ArchiveLayout& layout, const std::vector<std::string>& data) {
  std::string file(layout.bytes, '?');
  for (const Blob& blob : layout.blobs) file.replace(blob.offset, blob.bytes.size(), blob.bytes);
  for (std::size_t i = 0; i < data.size(); ++i) {
    file.replace(layout.storages[i].offset, data[i].size(), data[i]);
    for (const std::uint64_t offset : layout.storages[i].crc32_offsets) PutField(file, offset, Crc32(data[i]), 4);
  }
  return file;
}

// A sample read and written again.
std::string Rewritten(std::string_view sample, std::string_view root) {
  const std::string bytes = Sample(sample);
  const Archive archive = SampleArchive(sample);
  std::vector<StorageToWrite> storages;
  std::vector<std::string> data;
  for (std::size_t i = 0; i < archive.storages.size(); ++i) {
    const StorageExtent& extent = archive.storages.at(std::to_string(i));
    storages.push_back({extent.storage->dtype, extent.data.bytes});
    data.push_back(bytes.substr(extent.data.offset, extent.data.bytes));
  }
  return Filled(LayOutArchive(root, *archive.root(), storages), data);
}

// Up to its last record, the serialization id, which is not written here, a file is what torch.save wrote.
TEST(ArchiveWriter, WritesWhatTorchWrote) {
  for (const std::string stem : {"dtypes", "views", "parameters", "objects", "deepspeed", "random"}) {
    const std::string torch = Sample(stem + ".pt");
    const std::string ours = Rewritten(stem + ".pt", stem);
    const std::size_t same = torch.rfind("PK\x03\x04");
    EXPECT_EQ(ours.substr(0, same), torch.substr(0, same)) << stem;
    // The directory too, but for that record.
    const std::size_t torch_directory = torch.find("PK\x01\x02");
    const std::size_t our_directory = ours.find("PK\x01\x02");
    const std::size_t directory_bytes = ours.find("PK\x06\x06") - our_directory;
    EXPECT_EQ(ours.substr(our_directory, directory_bytes), torch.substr(torch_directory, directory_bytes)) << stem;
    EXPECT_EQ(ours.substr(ours.find("PK\x06\x06")).size(), 98u);
    EXPECT_EQ(ArchiveResult(ours), ArchiveResult(torch)) << stem;
  }
}

TEST(ArchiveWriter, AlignsDataAndLeavesNoByteOpen) {
  const std::uint64_t large = std::uint64_t{5} << 30;
  const StorageToWrite storages[] = {
      {DType::kFloat32, 12}, {DType::kUInt8, 0}, {DType::kUInt8, large}, {DType::kInt64, 8}};
  const ArchiveLayout layout = LayOutArchiveAround("archive", "\x80\x02N.", storages);
  std::vector<FileRange> ranges;
  for (const Blob& blob : layout.blobs) ranges.push_back({blob.offset, blob.bytes.size()});
  for (const StorageSlot& slot : layout.storages) {
    EXPECT_EQ(slot.offset % 64, 0u);
    EXPECT_EQ(slot.crc32_offsets.size(), slot.bytes == 0 ? 0u : 2u);
    if (slot.bytes > 0) ranges.push_back({slot.offset, slot.bytes});
  }
  std::ranges::sort(ranges, {}, &FileRange::offset);
  std::uint64_t end = 0;
  for (const FileRange& range : ranges) {
    EXPECT_EQ(range.offset, end);
    EXPECT_GT(range.bytes, 0u);
    end = range.offset + range.bytes;
  }
  EXPECT_EQ(end, layout.bytes);
}

// A file of blobs with nothing between them.
class HollowFile : public ReadableFile {
 public:
  explicit HollowFile(ArchiveLayout layout) : layout_(std::move(layout)) {}
  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return layout_.bytes; }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    for (const Blob& blob : layout_.blobs) {
      if (offset < blob.offset || offset + buffer.size() > blob.offset + blob.bytes.size()) continue;
      std::memcpy(buffer.data(), blob.bytes.data() + (offset - blob.offset), buffer.size());
      return llvm::Error::success();
    }
    ADD_FAILURE() << "a header is read at " << offset << ", where data lies";
    return llvm::Error::success();
  }

 private:
  std::string path_ = "hollow.pt";
  ArchiveLayout layout_;
};

TEST(ArchiveWriter, LaysOutStoragesBeyond4GiB) {
  const std::int64_t elements = std::int64_t{5} << 30;
  const ValuePtr tree = MakeDict({{MakeText("large"), MakeWholeTensor("0", DType::kUInt8, {elements})},
                                  {MakeText("behind"), MakeWholeTensor("1", DType::kFloat32, {3})}});
  const StorageToWrite storages[] = {{DType::kUInt8, static_cast<std::uint64_t>(elements)}, {DType::kFloat32, 12}};
  const HollowFile file(LayOutArchive("archive", *tree, storages));
  auto archive = ReadArchive(file);
  ASSERT_TRUE(static_cast<bool>(archive));
  EXPECT_EQ(Print(*archive->root()), Print(*tree));
  EXPECT_EQ(archive->storages.at("0").data.bytes, static_cast<std::uint64_t>(elements));
  EXPECT_GT(archive->storages.at("1").data.offset, static_cast<std::uint64_t>(elements));
}

// The headers that PyTorch 2.13 writes for torch.zeros(2**32 + 5, dtype=torch.uint8), saved as "big", at its own offset
// and in the directory: the sizes stand in a 64-bit field of their own.
TEST(ArchiveWriter, HeadersOfLargeRecordsAreThoseOfTorch) {
  using std::string_literals::operator""s;
  const StorageToWrite storages[] = {{DType::kUInt8, (std::uint64_t{1} << 32) + 5}};
  const ArchiveLayout layout = LayOutArchiveAround("big", std::string(330, 'p'), storages);
  const std::string& before = layout.blobs[0].bytes;
  const std::string local =
      "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\x42\0"
      "big/data/0\1\0\x10\0\5\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0FB\x2a\0"s +
      std::string(42, 'Z');
  EXPECT_EQ(before.substr(before.rfind("PK\3\4")), local);
  const std::string& behind = layout.blobs[1].bytes;
  EXPECT_EQ(behind.substr(0, 24), "PK\7\x08\0\0\0\0\5\0\0\0\1\0\0\0\5\0\0\0\1\0\0\0"s);
  EXPECT_NE(behind.find("big/data/0\1\0\x10\0\5\0\0\0\1\0\0\0\5\0\0\0\1\0\0\0PK"s), std::string::npos);
}

TEST(ArchiveWriter, IsDeterministic) { EXPECT_EQ(Rewritten("objects.pt", "a"), Rewritten("objects.pt", "a")); }

TEST(ArchiveWriterDeathTest, ATreeThatDisagreesWithTheListStopsTheProgram) {
  const ValuePtr tensor = MakeWholeTensor("0", DType::kFloat32, {3});
  const StorageToWrite wrong[] = {{DType::kFloat32, 16}};
  EXPECT_DEATH(LayOutArchive("a", *tensor, wrong), "the storage `0` has 12 bytes in the tree and 16 in the list");
  const StorageToWrite other[] = {{DType::kInt32, 12}};
  EXPECT_DEATH(LayOutArchive("a", *tensor, other), "the storage `0` is float32 in the tree and int32 in the list");
  EXPECT_DEATH(LayOutArchive("a", *tensor, {}), "the tree names the storage `0` and the list has 0");
}

}  // namespace
}  // namespace ucp::pytorch
