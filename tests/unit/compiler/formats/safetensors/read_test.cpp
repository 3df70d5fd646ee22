#include "compiler/formats/safetensors/read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/formats/recognise/recognise.h"
#include "compiler/formats/safetensors/header.h"
#include "compiler/formats/safetensors/index.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of float32 vectors of these lengths, elements included.
std::string FileOf(const std::map<std::string, std::int64_t>& lengths) {
  Header header;
  for (const auto& [name, length] : lengths) header.entries.push_back({name, DType::kFloat32, {length}, 0, 0});
  Arrange(header);
  return ComposeHeader(header) + std::string(header.entries.empty() ? 0 : header.entries.back().end, 'e');
}

class SafetensorsRead : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  std::string Path(const std::string& name = "") const {
    return name.empty() ? temporary_.path() : temporary_.path() + "/" + name;
  }

  // "a float32 [3] in model.safetensors", one for each shard.
  std::vector<std::string> Tensors(const std::string& path) {
    Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), path);
    const Storage& storage = checkpoint.inventory.storage;
    std::vector<std::string> lines;
    for (const Shard& shard : storage.shards) {
      const Buffer& buffer = storage.buffer(storage.buffer_set(shard.states).front().buffer);
      lines.push_back(fmt::format("{} {} [{}] in {}", shard.tensor, Name(buffer.dtype), fmt::join(shard.shape, ", "),
                                  storage.file(buffer.parts.front().record).path));
    }
    remarks_ = checkpoint.inventory.remarks;
    return lines;
  }

  std::string Refusal(const std::string& path) {
    auto found = RecogniseAny(RealFiles(), path);
    if (!found) return TakeFailure(found.takeError()).message;
    auto checkpoint = DescribeModel(RealFiles(), found->folder, {});
    return checkpoint ? "accepted" : TakeFailure(checkpoint.takeError()).message;
  }

  testing::TemporaryFolder temporary_;
  std::vector<std::string> remarks_;
};

TEST_F(SafetensorsRead, OneFile) {
  Write("model.safetensors", FileOf({{"a", 3}, {"b", 0}}));
  for (const std::string& path : {Path(), Path("model.safetensors")}) {
    EXPECT_THAT(Tensors(path), ElementsAre("a float32 [3] in model.safetensors", "b float32 [0] in model.safetensors"));
  }
}

TEST_F(SafetensorsRead, AFileOfAnotherNameStandsForItself) {
  Write("consolidated.safetensors", FileOf({{"a", 3}}));
  EXPECT_THAT(Refusal(Path()), HasSubstr("is not a recognised checkpoint"));
  EXPECT_THAT(Tensors(Path("consolidated.safetensors")), ElementsAre("a float32 [3] in consolidated.safetensors"));
}

TEST_F(SafetensorsRead, SeveralFilesAndTheirIndex) {
  Write("one.safetensors", FileOf({{"a", 3}, {"stray", 1}}));
  Write("two.safetensors", FileOf({{"b", 4}}));
  Write("model.safetensors.index.json", ComposeIndex({28, {{"a", "one.safetensors"}, {"b", "two.safetensors"}}}));
  for (const std::string& path : {Path(), Path("two.safetensors"), Path("model.safetensors.index.json")}) {
    EXPECT_THAT(Tensors(path), ElementsAre("a float32 [3] in one.safetensors", "b float32 [4] in two.safetensors"));
  }
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("`one.safetensors` also holds 1 tensors (first `stray`)")));

  Write("model.safetensors.index.json", ComposeIndex({28, {{"a", "one.safetensors"}, {"c", "two.safetensors"}}}));
  EXPECT_THAT(Refusal(Path()), HasSubstr("puts tensor `c` into `two.safetensors`, which does not hold it"));
  Write("model.safetensors.index.json", ComposeIndex({28, {{"a", "three.safetensors"}}}));
  EXPECT_THAT(Refusal(Path()), HasSubstr("three.safetensors"));
  Write("model.safetensors.index.json", ComposeIndex({28, {{"a", "../one.safetensors"}}}));
  EXPECT_THAT(Refusal(Path()), HasSubstr("into `../one.safetensors`, which is not the name of a file beside it"));
}

TEST_F(SafetensorsRead, TwoModelsInOneFolderMustBeNamed) {
  Write("model.safetensors", FileOf({{"a", 3}}));
  Write("one.safetensors", FileOf({{"a", 4}}));
  Write("model.safetensors.index.json", ComposeIndex({16, {{"a", "one.safetensors"}}}));
  EXPECT_THAT(Refusal(Path()), HasSubstr("holds both `model.safetensors` and `model.safetensors.index.json`"));
  EXPECT_THAT(Tensors(Path("model.safetensors")), ElementsAre("a float32 [3] in model.safetensors"));
  EXPECT_THAT(Tensors(Path("model.safetensors.index.json")), ElementsAre("a float32 [4] in one.safetensors"));
}

TEST_F(SafetensorsRead, DamageIsASentence) {
  const std::string good = FileOf({{"a", 3}});
  auto refusal = [&](const std::string& content) {
    Write("model.safetensors", content);
    return Refusal(Path());
  };
  auto with_length = [&](std::uint64_t length) {
    std::string bytes = good;
    for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    return bytes;
  };
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal(""), HasSubstr("has 0 bytes, and a length alone takes 8"));
  EXPECT_THAT(refusal(good.substr(0, 7)), HasSubstr("has 7 bytes, and a length alone takes 8"));
  EXPECT_THAT(refusal(with_length(0)), HasSubstr("does not begin with `{`"));
  EXPECT_THAT(refusal(with_length(1)), HasSubstr("it ends where a text should stand"));
  EXPECT_THAT(refusal(with_length(std::uint64_t{1} << 63)), HasSubstr("it should have 9223372036854775808 bytes"));
  EXPECT_THAT(refusal(with_length(100'000'001)), HasSubstr("it should have 100000001 bytes; the most is 100000000"));
  EXPECT_THAT(refusal(with_length(good.size())), HasSubstr("bytes; the most is 100000000, and the file has"));
  EXPECT_THAT(refusal(good + "x"), HasSubstr("its tensors have 12 bytes, and 13 follow it"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("its tensors have 12 bytes, and 11 follow it"));
  EXPECT_THAT(refusal(good.substr(0, 20)), HasSubstr("header of `"));
}

}  // namespace
}  // namespace ucp::safetensors
