#include "compiler/formats/pytorch/archive/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The sample's first two pickles and the dict about the machine: what stands before the object.
std::string Beginning() {
  const std::string sample = Sample("stream.pt");
  return sample.substr(0, SampleArchive("stream.pt").pickle_data.offset);
}

std::string NoKeys() { return WritePickle(*MakeList({})); }

TEST(StreamReader, FindsTheElements) {
  const MemoryFile file(Sample("views_stream.pt"));
  const Archive archive = SampleArchive("views_stream.pt");
  EXPECT_EQ(archive.root_folder, "");
  auto elements = [&](std::string_view name) {
    auto bytes = ReadSmallTensor(file, archive, *Find(*archive.root(), name)->As<Tensor>());
    std::vector<float> numbers;
    if (!bytes) {
      ADD_FAILURE() << TakeFailure(bytes.takeError()).message;
      return numbers;
    }
    numbers.resize(bytes->size() / sizeof(float));
    if (!numbers.empty()) std::memcpy(numbers.data(), bytes->data(), bytes->size());
    return numbers;
  };
  EXPECT_THAT(elements("row"), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(elements("transposed"), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(elements("expanded"), ElementsAre(3, 3, 3, 3, 3));
  EXPECT_THAT(elements("empty"), ElementsAre());
  const auto* scalar = Find(*archive.root(), "scalar")->As<Tensor>();
  auto number = ReadScalar(file, archive, *scalar);
  ASSERT_TRUE(static_cast<bool>(number));
  EXPECT_EQ(*number, 7);
  EXPECT_FALSE(archive.storages.at(scalar->storage->key).crc32.has_value());
}

TEST(StreamReader, ReadsPicklesThatAreLongerThanItsWindow) {
  std::vector<ValuePtr> items;
  for (int i = 0; i < 500; ++i) items.push_back(MakeText(std::string(1000, static_cast<char>('a' + i % 26))));
  const ValuePtr tree =
      MakeDict({{MakeText("items"), MakeList(items)}, {MakeText("long"), MakeText(std::string(300'000, 'x'))}});
  EXPECT_EQ(ArchiveResult(Beginning() + WritePickle(*tree) + NoKeys()), Print(*tree));
}

TEST(StreamReader, RefusesEveryCut) {
  const std::string sample = Sample("stream.pt");
  for (std::size_t length = 1; length < sample.size(); ++length) {
    auto archive = ReadArchive(MemoryFile(sample.substr(0, length)));
    ASSERT_FALSE(archive) << length;
    EXPECT_THAT(TakeFailure(archive.takeError()).message, HasSubstr("`x.pt`")) << length;
  }
}

TEST(StreamReader, SaysWhatIsWrong) {
  const std::string sample = Sample("stream.pt");
  const std::string beginning = Beginning();
  EXPECT_THAT(ArchiveResult(WritePickle(*MakeInteger(7)) + beginning),
              HasSubstr("`x.pt`: the file begins with a pickle that is not PyTorch's: 7"));
  std::string version = beginning;
  version[Place(version, std::string_view("M\xe9\x03")) + 1] = '\xea';
  EXPECT_THAT(ArchiveResult(version), HasSubstr("the file is a stream of version 1002, and only 1001 is known"));
  EXPECT_THAT(ArchiveResult(sample + "x"), HasSubstr("1 bytes follow the last storage"));
  EXPECT_THAT(ArchiveResult(sample.substr(0, sample.size() - 1)), HasSubstr("needs 8 bytes, and 7 are left"));
  std::string count = sample;
  PutField(count, count.size() - 16, 3, 8);
  EXPECT_THAT(ArchiveResult(count), HasSubstr("has 3 elements at byte "));
  EXPECT_THAT(ArchiveResult(beginning + WritePickle(*MakeNone()) + WritePickle(*MakeList({MakeText("5")}))),
              HasSubstr("the list of storage keys has '5', which no tensor is in, or has it twice"));
  EXPECT_THAT(ArchiveResult(beginning + WritePickle(*MakeNone()) + WritePickle(*MakeNone())),
              HasSubstr("the storage keys are not a list"));
  const Archive archive = SampleArchive("stream.pt");
  EXPECT_THAT(ArchiveResult(sample.substr(0, archive.pickle_data.offset + archive.pickle_data.bytes) + NoKeys()),
              HasSubstr("is not in the list of storage keys"));
}

// A text that is announced with more bytes than the file has is not waited for.
TEST(StreamReader, BelievesNoCount) {
  const std::string huge = Beginning() + "\x80\x02X\xff\xff\xff\x7f";
  EXPECT_THAT(ArchiveResult(huge), HasSubstr("2147483647 bytes are announced and 0 are left"));
}

}  // namespace
}  // namespace ucp::pytorch
