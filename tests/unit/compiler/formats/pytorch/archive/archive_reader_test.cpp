#include "compiler/formats/pytorch/archive/archive_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/formats/pytorch/archive/small_tensor_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The elements of a tensor of a sample.
template <typename T>
std::vector<T> Elements(std::string_view sample, std::string_view name) {
  const Archive archive = SampleArchive(sample);
  const MemoryFile file(Sample(sample));
  auto bytes = ReadSmallTensor(file, archive, *Find(*archive.root(), name)->As<Tensor>());
  if (!bytes) {
    ADD_FAILURE() << TakeFailure(bytes.takeError()).message;
    return {};
  }
  std::vector<T> elements(bytes->size() / sizeof(T));
  if (!bytes->empty()) std::memcpy(elements.data(), bytes->data(), bytes->size());
  return elements;
}

TEST(ArchiveReader, FindsTheElementsOfViews) {
  EXPECT_THAT(Elements<float>("views.pt", "row"), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(Elements<float>("views.pt", "column"), ElementsAre(1, 5, 9));
  EXPECT_THAT(Elements<float>("views.pt", "transposed"), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(Elements<float>("views.pt", "expanded"), ElementsAre(3, 3, 3, 3, 3));
  EXPECT_THAT(Elements<float>("views.pt", "empty"), ElementsAre());
  EXPECT_THAT(Elements<std::int64_t>("views.pt", "scalar"), ElementsAre(7));
  EXPECT_THAT(Elements<std::int64_t>("parameters.pt", "parameter"), ElementsAre(3, 4));
}

TEST(ArchiveReader, PlacesEveryDType) {
  const Archive archive = SampleArchive("dtypes.pt");
  const std::string bytes = Sample("dtypes.pt");
  // [0, 1, 1] in each dtype: the last two elements are equal, and not zero.
  for (const Entry& entry : *Entries(*archive.root())) {
    const auto& tensor = *entry.value->As<Tensor>();
    const auto item = static_cast<std::size_t>(ItemBytes(tensor.dtype));
    const std::string data = bytes.substr(FileOffset(archive, tensor), 3 * item);
    EXPECT_EQ(data.substr(0, item), std::string(item, '\0')) << Print(*entry.key);
    EXPECT_NE(data.substr(item, item), std::string(item, '\0')) << Print(*entry.key);
    EXPECT_EQ(data.substr(item, item), data.substr(2 * item, item)) << Print(*entry.key);
    EXPECT_EQ(archive.storages.at(tensor.storage->key).data.bytes, 3 * item);
  }
}

TEST(ArchiveReader, ReadsOneNumber) {
  const Archive archive = SampleArchive("dtypes.pt");
  const MemoryFile file(Sample("dtypes.pt"));
  for (const Entry& entry : *Entries(*archive.root())) {
    Tensor second = *entry.value->As<Tensor>();
    second.sizes = second.strides = {};
    second.offset = 1;
    auto number = ReadScalar(file, archive, second);
    const std::string name(*AsText(*entry.key));
    const bool is_served = name.find("complex") == std::string::npos && name.find("float8") == std::string::npos;
    ASSERT_EQ(static_cast<bool>(number), is_served) << name;
    if (number) {
      EXPECT_EQ(*number, 1.0) << name;
    } else {
      EXPECT_THAT(TakeFailure(number.takeError()).message, HasSubstr("stands where a number is expected"));
    }
  }
}

TEST(ArchiveReader, RefusesLargeTensorsInHeaders) {
  const Archive archive = SampleArchive("views.pt");
  Tensor tensor = *Find(*archive.root(), "expanded")->As<Tensor>();
  tensor.sizes = {std::int64_t{1} << 40};
  auto bytes = ReadSmallTensor(MemoryFile(Sample("views.pt")), archive, tensor);
  ASSERT_FALSE(bytes);
  EXPECT_THAT(
      TakeFailure(bytes.takeError()).message,
      HasSubstr("`x.pt`: a tensor of 4398046511104 bytes stands where one of at most 16777216 is carried over"));
}

TEST(ArchiveReader, BoundsTheSmallTensorsOfOneFile) {
  const Archive archive = SampleArchive("views.pt");
  const MemoryFile file(Sample("views.pt"));
  Tensor tensor = *Find(*archive.root(), "expanded")->As<Tensor>();
  tensor.sizes = {static_cast<std::int64_t>(file.bytes()) / 4};  // As many bytes as the file, a few more or less.
  SmallTensorReader reader;
  for (int i = 0; i < 4; ++i) {
    auto bytes = reader.Read(file, archive, tensor);
    ASSERT_TRUE(static_cast<bool>(bytes)) << TakeFailure(bytes.takeError()).message;
    EXPECT_EQ(bytes->size(), file.bytes() / 4 * 4);
  }
  auto refused = reader.Read(file, archive, tensor);
  for (int i = 0; refused && i < 2; ++i) refused = reader.Read(file, archive, tensor);
  ASSERT_FALSE(refused);
  EXPECT_THAT(TakeFailure(refused.takeError()).message, HasSubstr("more than 4 times the"));
}

TEST(ArchiveReader, ReadsTheStorageOfSmallTensorsOnce) {
  class CountingFile : public MemoryFile {
   public:
    using MemoryFile::MemoryFile;
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      ++reads;
      return MemoryFile::ReadAt(offset, buffer);
    }
    mutable int reads = 0;
  };
  const Archive archive = SampleArchive("views.pt");
  const CountingFile file(Sample("views.pt"));
  SmallTensorReader reader;
  for (const char* name : {"row", "column", "transposed", "expanded"}) {
    EXPECT_TRUE(static_cast<bool>(reader.Read(file, archive, *Find(*archive.root(), name)->As<Tensor>()))) << name;
  }
  EXPECT_EQ(file.reads, 1);
}

TEST(ArchiveReader, ChecksTheChecksumsOfSmallTensors) {
  const Archive archive = SampleArchive("views.pt");
  const auto& tensor = *Find(*archive.root(), "row")->As<Tensor>();
  const FileRange data = archive.storages.at(tensor.storage->key).data;
  std::string bytes = Sample("views.pt");
  const std::size_t place = data.offset + data.bytes - 48;  // Outside of the row, which is the last of three.
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  auto read = ReadSmallTensor(MemoryFile(bytes), archive, tensor);
  ASSERT_FALSE(read);
  FailureText failure = TakeFailure(read.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_THAT(failure.message, HasSubstr("`x.pt`: record `data/0` is damaged: its CRC-32 is "));
}

TEST(ArchiveReader, RefusesOtherFiles) {
  EXPECT_THAT(ArchiveResult(std::string(257, '\0') + "ustar" + std::string(300, '\0')), HasSubstr("a tar archive"));
  EXPECT_THAT(ArchiveResult("{\"json\": 1}, which is longer than a zip end record"),
              HasSubstr("does not begin as one that torch.save wrote"));
  EXPECT_THAT(ArchiveResult(""), HasSubstr("it is empty or cut off"));
}

TEST(ArchiveReader, ChecksThePicklesChecksum) {
  std::string bytes = Sample("views.pt");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  EXPECT_THAT(ArchiveResult(bytes), HasSubstr("`x.pt`: the record `data.pkl` has the checksum"));
  EXPECT_EQ(ArchiveResult(WithPickleChecksum(Sample("views.pt"))), ArchiveResult(Sample("views.pt")));
}

TEST(ArchiveReader, RefusesBigEndianFiles) {
  std::string bytes = Sample("views.pt");
  bytes.replace(Place(bytes, "little"), 6, "middle");
  EXPECT_THAT(ArchiveResult(bytes), HasSubstr("the record `byteorder` has the checksum"));
  PutField(bytes, Place(bytes, "PK\x01\x02", 3) + 16, Crc32("middle"), 4);
  EXPECT_THAT(ArchiveResult(bytes), HasSubstr("the byte order of the file is `middle`; only little-endian files"));
}

TEST(ArchiveReader, ChecksTheBytesOfEachStorage) {
  // The pickle says 12 elements of storage 0 (in the first tensor and in all others).
  std::string bytes = Sample("views.pt");
  for (std::size_t at = Place(bytes, "K\x0ctq"); at != std::string::npos; at = bytes.find("K\x0ctq", at))
    bytes[at + 1] = 13;
  EXPECT_THAT(ArchiveResult(WithPickleChecksum(bytes)),
              HasSubstr("the record `data/0` has 48 bytes, and 13 elements of float32 take 52"));
}

TEST(ArchiveReader, RefusesAMissingStorage) {
  std::string bytes = Sample("views.pt");
  for (std::size_t at = bytes.find("views/data/0"); at != std::string::npos; at = bytes.find("views/data/0", at)) {
    bytes[at + 11] = '9';
  }
  EXPECT_THAT(ArchiveResult(bytes), HasSubstr("the storage `0` has no record `data/0`"));
}

TEST(ArchiveReader, RefusesAnArchiveWithoutAPickle) {
  std::string bytes = Sample("views.pt");
  for (std::size_t at = bytes.find("data.pkl"); at != std::string::npos; at = bytes.find("data.pkl", at))
    bytes[at] = 'e';
  EXPECT_THAT(ArchiveResult(bytes), HasSubstr("the archive has no record `data.pkl`"));
}

}  // namespace
}  // namespace ucp::pytorch
