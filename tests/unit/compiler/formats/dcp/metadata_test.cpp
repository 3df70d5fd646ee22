#include "compiler/formats/dcp/metadata.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/dcp/saved_dict.h"

namespace ucp::dcp {
namespace {

using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const std::vector<PathPart>& path) {
  std::string text;
  for (const PathPart& part : path) {
    const auto* name = std::get_if<std::string>(&part);
    text += "/" + (name != nullptr ? *name : std::to_string(std::get<std::int64_t>(part)));
  }
  return text;
}

// "model.a /model/a float32 [3, 4]: [2, 4] at [0, 0] in __0_0.distcp 0+700", one for each entry.
std::vector<std::string> LinesOf(const Metadata& metadata) {
  std::vector<std::string> lines;
  for (const Entry& entry : metadata.entries) {
    std::string line = fmt::format("{} {}", entry.key, TextOf(entry.path));
    line += entry.is_tensor ? fmt::format(" {} [{}]:", Name(entry.dtype), fmt::join(entry.shape, ", ")) : " value:";
    for (const Chunk& chunk : entry.chunks) {
      line += fmt::format(" [{}] at [{}] in {} {}+{}", fmt::join(chunk.sizes, ", "), fmt::join(chunk.offsets, ", "),
                          metadata.files[chunk.place.file], chunk.place.offset, chunk.place.bytes);
    }
    lines.push_back(line);
  }
  return lines;
}

std::string Refusal(std::string_view pickle) {
  auto metadata = ReadMetadata(pickle);
  return metadata ? "accepted" : TakeFailure(metadata.takeError()).message;
}

std::string Refusal(const ValuePtr& root) { return Refusal(pytorch::WritePickle(*root)); }

class MetadataOfVersion : public ::testing::TestWithParam<const char*> {};

TEST_P(MetadataOfVersion, IsRead) {
  auto metadata = ReadMetadata(FileContent(SamplePath(std::string(GetParam()) + ".metadata")));
  ASSERT_TRUE(static_cast<bool>(metadata)) << TakeFailure(metadata.takeError()).message;
  EXPECT_TRUE(metadata->has_paths);
  EXPECT_THAT(metadata->files, ElementsAre("__0_0.distcp", "__1_0.distcp"));
  EXPECT_THAT(LinesOf(*metadata),
              ElementsAre("step /step value: [] at [] in __0_0.distcp 1200+400",
                          "model.a /model/a float32 [3, 4]: [2, 4] at [0, 0] in __0_0.distcp 0+700 [1, 4] at [2, 0] in "
                          "__1_0.distcp 0+600",
                          "model.b /model/b float32 []: [] at [] in __0_0.distcp 700+500"));
}

INSTANTIATE_TEST_SUITE_P(All, MetadataOfVersion,
                         ::testing::Values("torch_1_13", "torch_2_2", "torch_2_13", "torch_2_13_enum_by_name",
                                           "torch_2_15"),
                         [](const auto& version) { return std::string(version.param); });

TEST(DcpMetadata, PropertiesOfALaterVersionAreRefused) {
  EXPECT_EQ(Refusal(FileContent(SamplePath("torch_of_later.metadata"))),
            "the TensorProperties of `model.a` have 7 parts, and 5 or 6 are known");
}

TEST(DcpMetadata, EveryTruncationIsRefused) {
  const std::string whole = FileContent(SamplePath("torch_2_13.metadata"));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(Refusal(std::string_view(whole).substr(0, bytes)), "accepted") << bytes;
  }
}

// Any byte may be anything; nothing crashes, and what is accepted holds together.
TEST(DcpMetadata, EveryChangedByteIsReadOrRefused) {
  const std::string whole = FileContent(SamplePath("torch_2_13.metadata"));
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[place] = static_cast<char>(bytes[place] ^ change);
      auto metadata = ReadMetadata(bytes);
      if (!metadata) {
        EXPECT_NE(TakeFailure(metadata.takeError()).message, "");
        continue;
      }
      for (const Entry& entry : metadata->entries) {
        for (const Chunk& chunk : entry.chunks) EXPECT_LT(chunk.place.file, metadata->files.size());
      }
    }
  }
}

SavedDict TwoChunks(std::vector<Box> boxes) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {4, 6}, 0, std::move(boxes));
  return dict;
}

TEST(DcpMetadata, ChunksArePartitions) {
  EXPECT_EQ(Refusal(TwoChunks({{{0, 0}, {4, 2}}, {{0, 2}, {1, 4}}, {{1, 2}, {3, 4}}}).Metadata()), "accepted");
  EXPECT_EQ(Refusal(TwoChunks({{{0, 0}, {3, 6}}, {{2, 0}, {2, 6}}}).Metadata()),
            "the chunk [3, 6] at [0, 0] and the chunk [2, 6] at [2, 0] of `model.a` have elements in common");
  EXPECT_EQ(Refusal(TwoChunks({{{0, 0}, {3, 6}}}).Metadata()),
            "the 1 chunks of `model.a` hold 18 of the 24 elements of a tensor of [4, 6]");
  EXPECT_EQ(Refusal(TwoChunks({{{0, 0}, {3, 6}}, {{3, 0}, {2, 6}}}).Metadata()),
            "the chunk [2, 6] at [3, 0] of `model.a` is not within the tensor, which is [4, 6]");
  EXPECT_EQ(Refusal(TwoChunks({{{0, 0}, {4, 6}}, {{4, 0}, {0, 6}}}).Metadata()), "accepted");
  EXPECT_THAT(Refusal(TwoChunks({{{0}, {4}}}).Metadata()), HasSubstr("is not within the tensor"));
}

// The metadata with another attribute of one of its objects.
ValuePtr WithAttribute(const ValuePtr& object, std::string_view name, const ValuePtr& value) {
  pytorch::Call call = *object->As<pytorch::Call>();
  std::vector<pytorch::Entry> attributes = *pytorch::Entries(*call.state);
  std::erase_if(attributes, [&](const pytorch::Entry& entry) { return pytorch::AsText(*entry.key) == name; });
  if (value) attributes.push_back({MakeText(std::string(name)), value});
  call.state = pytorch::MakeDict(std::move(attributes));
  return pytorch::MakeCall(std::move(call));
}

// The metadata of one tensor with another attribute of its place.
std::string RefusalOfPlace(std::string_view name, const ValuePtr& value) {
  const ValuePtr root = TwoChunks({}).Metadata();
  const pytorch::Entry& place = pytorch::Entries(*pytorch::Find(*root, "storage_data"))->front();
  const ValuePtr places = pytorch::MakeDict({{place.key, WithAttribute(place.value, name, value)}});
  return Refusal(WithAttribute(root, "storage_data", places));
}

TEST(DcpMetadata, FilesLieBelowTheFolder) {
  EXPECT_EQ(RefusalOfPlace("relative_path", MakeText("rank 0/__0_0.distcp")), "accepted");
  for (const char* path : {"/etc/passwd", "../a", "a/../../b", "", ".", "a//b", "a/"}) {
    EXPECT_EQ(RefusalOfPlace("relative_path", MakeText(path)),
              fmt::format("`model.a` lies in the file `{}`, which is not below the folder", path));
  }
}

TEST(DcpMetadata, PlacesAreParts) {
  EXPECT_EQ(RefusalOfPlace("length", MakeInteger(0)),
            "the place of `model.a` is 0 bytes from 0 on of `__0_0.distcp`, which is not a part of a file");
  EXPECT_THAT(RefusalOfPlace("offset", MakeInteger(-1)), HasSubstr("which is not a part of a file"));
  EXPECT_THAT(RefusalOfPlace("length", MakeText("9")), HasSubstr("which is not a part of a file"));
  EXPECT_EQ(RefusalOfPlace("length", nullptr), "the place of `model.a` has no attribute `length`");
}

// The order of chunks, in which PyTorch lists them, is only the quickest.
TEST(DcpMetadata, PlacesInAnyOrder) {
  const ValuePtr root = TwoChunks({{{0, 0}, {1, 6}}, {{1, 0}, {1, 6}}, {{2, 0}, {1, 6}}, {{3, 0}, {1, 6}}}).Metadata();
  const auto with = [&](std::vector<pytorch::Entry> places) {
    return WithAttribute(root, "storage_data", pytorch::MakeDict(std::move(places)));
  };
  const std::vector<pytorch::Entry> places = *pytorch::Entries(*pytorch::Find(*root, "storage_data"));
  const auto in_files = [](const Metadata& metadata) {
    std::vector<std::string> files;
    for (const Chunk& chunk : metadata.entries.front().chunks) files.push_back(metadata.files[chunk.place.file]);
    return files;
  };
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    std::vector<pytorch::Entry> shuffled;
    for (const std::size_t place : order) shuffled.push_back(places[place]);
    auto metadata = ReadMetadata(pytorch::WritePickle(*with(shuffled)));
    ASSERT_TRUE(static_cast<bool>(metadata)) << TakeFailure(metadata.takeError()).message;
    EXPECT_THAT(in_files(*metadata), ElementsAre("__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "__3_0.distcp"));
    for (std::size_t twice = 0; twice < 4; ++twice) {
      for (std::size_t at = 0; at <= 4; ++at) {
        std::vector<pytorch::Entry> more = shuffled;
        more.insert(more.begin() + static_cast<std::ptrdiff_t>(at), places[twice]);
        EXPECT_EQ(Refusal(with(more)), fmt::format("`storage_data` has two places for `model.a` at [{}, 0]", twice));
      }
    }
    shuffled.pop_back();
    EXPECT_EQ(Refusal(with(shuffled)),
              fmt::format("`storage_data` does not say where the chunk [1, 6] at [{}, 0] of `model.a` lies", order[3]));
  } while (std::ranges::next_permutation(order).found);
}

TEST(DcpMetadata, TransformsOfItems) {
  EXPECT_EQ(RefusalOfPlace("transform_descriptors", pytorch::MakeNone()), "accepted");
  EXPECT_EQ(RefusalOfPlace("transform_descriptors", MakeList({})), "accepted");
  EXPECT_EQ(RefusalOfPlace("transform_descriptors", MakeList({MakeText("stream.zstd/1")})), "accepted");
  EXPECT_EQ(RefusalOfPlace("transform_descriptors", MakeList({MakeText("stream.zstd/2")})),
            "`model.a` was transformed by `stream.zstd/2` when it was saved, and items are read as torch.save writes "
            "them or packed by `stream.zstd/1`; load it with PyTorch and save it again without `_extensions`");
  EXPECT_THAT(RefusalOfPlace("transform_descriptors", MakeList({MakeText("stream.zstd/1"), MakeText("stream.zstd/1")})),
              HasSubstr("`model.a` was transformed by `stream.zstd/1`, `stream.zstd/1` when it was saved"));
  EXPECT_THAT(RefusalOfPlace("transform_descriptors", MakeList({MakeText("mine.cipher/1")})),
              HasSubstr("`model.a` was transformed by `mine.cipher/1` when it was saved"));
}

TEST(DcpMetadata, TablesMustFit) {
  const ValuePtr root = TwoChunks({}).Metadata();
  EXPECT_EQ(Refusal(WithAttribute(root, "storage_data", pytorch::MakeDict({}))),
            "`storage_data` does not say where the chunk [4, 6] at [0, 0] of `model.a` lies");
  EXPECT_EQ(Refusal(WithAttribute(root, "state_dict_metadata", nullptr)),
            "the metadata has no attribute `state_dict_metadata`");
  EXPECT_EQ(Refusal(WithAttribute(root, "state_dict_metadata",
                                  pytorch::MakeDict({{MakeText("a"), Object("evil", "Class", {})}}))),
            "`a` in `state_dict_metadata` is an object of `evil.Class`, and TensorStorageMetadata or "
            "BytesStorageMetadata was expected");
  EXPECT_EQ(Refusal(Object("evil", "Metadata", {})),
            "it is an object of `evil.Metadata`, and torch.distributed.checkpoint.metadata.Metadata was expected");
}

TEST(DcpMetadata, MegatronIsRefusedByName) {
  EXPECT_THAT(Refusal(Object("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata", {})),
              HasSubstr("saved by Megatron Core (MCoreMetadata)"));
  EXPECT_THAT(Refusal(WithAttribute(TwoChunks({}).Metadata(), "mcore_data", pytorch::MakeDict({}))),
              HasSubstr("saved by Megatron Core (mcore_data)"));
}

ValuePtr OfMegatron(const ValuePtr& shape) {
  const ValuePtr data = pytorch::MakeDict({{MakeText("nd_reformulated_orig_global_shape"), shape}});
  return WithAttribute(TwoChunks({}).Metadata(), "mcore_data", pytorch::MakeDict({{MakeText("model.a"), data}}));
}

TEST(DcpMetadata, MegatronsSaysTheShapesInTheModel) {
  const ValuePtr shape = pytorch::MakeTorchSize({2, 24});
  const Metadata read = llvm::cantFail(ReadMetadata(pytorch::WritePickle(*OfMegatron(shape)), MetadataOf::kMegatron));
  EXPECT_THAT(read.shapes_in_model, ElementsAre(::testing::Pair("model.a", ElementsAre(2, 24))));
  auto damaged = ReadMetadata(pytorch::WritePickle(*OfMegatron(MakeText("wide"))), MetadataOf::kMegatron);
  ASSERT_FALSE(static_cast<bool>(damaged));
  EXPECT_EQ(TakeFailure(damaged.takeError()).message,
            "the shape of `model.a` is `wide`, and a list of numbers was expected");
}

// A list of chunks that all tensors share takes few bytes, and as many chunks for each tensor.
TEST(DcpMetadata, ChunksThatAreNamedManyTimesAreRefused) {
  SavedDict dict;
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < 40; ++i) boxes.push_back({{i}, {1}});
  dict.Tensor({"model", "a"}, {40}, 0, boxes);
  const ValuePtr root = dict.Metadata();
  const ValuePtr tensor = pytorch::Entries(*pytorch::Find(*root, "state_dict_metadata"))->front().value;
  std::vector<pytorch::Entry> shared;
  for (int i = 0; i < 1000; ++i) shared.push_back({MakeText(fmt::format("t{}", i)), tensor});
  EXPECT_THAT(Refusal(WithAttribute(root, "state_dict_metadata", pytorch::MakeDict(std::move(shared)))),
              HasSubstr("bytes describe"));
}

// Values are nested as deep as their paths are long, and a stack is not endless.
TEST(DcpMetadata, PathsWithoutEndAreRefused) {
  SavedDict deep;
  deep.Value(std::vector<PathPart>(201, PathPart("a")), MakeInteger(1));
  EXPECT_THAT(Refusal(deep.Metadata()), HasSubstr("is nested 201 deep, and 200 are read"));
  SavedDict flat;
  flat.Value({std::string(250, '.')}, MakeInteger(1));
  EXPECT_THAT(Refusal(WithAttribute(flat.Metadata(), "planner_data", pytorch::MakeNone())),
              HasSubstr("is nested 251 deep, and 200 are read"));
}

// Entries that other planners store there are not read.
TEST(DcpMetadata, WithoutPathsKeysAreNames) {
  const ValuePtr root = TwoChunks({}).Metadata();
  for (const ValuePtr& paths : {pytorch::MakeNone(), MakeText("?"), pytorch::MakeDict({})}) {
    auto metadata = ReadMetadata(pytorch::WritePickle(*WithAttribute(root, "planner_data", paths)));
    ASSERT_TRUE(static_cast<bool>(metadata));
    EXPECT_FALSE(metadata->has_paths);
    EXPECT_EQ(TextOf(metadata->entries.front().path), "/model.a");
  }
}

}  // namespace
}  // namespace ucp::dcp
