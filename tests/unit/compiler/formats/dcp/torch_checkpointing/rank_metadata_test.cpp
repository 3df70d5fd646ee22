// The metadata of torch_checkpointing, made by hand: as the package writes it, and with one mistake at a time.
#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeNone;
using pytorch::MakeText;
using pytorch::MakeTuple;
using pytorch::ValuePtr;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ValuePtr Dict(const std::vector<std::pair<std::string, ValuePtr>>& entries) {
  std::vector<Entry> made;
  for (const auto& [key, value] : entries) made.push_back({MakeText(key), value});
  return MakeDict(std::move(made));
}

std::vector<ValuePtr> Integers(const std::vector<std::int64_t>& numbers) {
  std::vector<ValuePtr> made;
  for (const std::int64_t number : numbers) made.push_back(MakeInteger(number));
  return made;
}

// One tensor of two ranks, each part of which a test changes.
struct Saved {
  std::string item = "model";
  std::string path = R"(["a.weight",0])";
  std::string kind = "DTensorShardingMetadata";
  std::string dtype = "torch.bfloat16";
  std::vector<std::int64_t> shape = {5, 3};
  std::vector<std::int64_t> mesh_shape = {2};
  std::vector<std::int64_t> mesh_ranks = {0, 1};
  std::vector<std::int64_t> ranks = {0, 1};
  std::vector<ValuePtr> placements = {Dict({{"type", MakeText("Shard")}, {"dim", MakeInteger(0)}})};
  std::vector<Entry> layouts = {{MakeInteger(0), MakeNone()}, {MakeInteger(1), MakeNone()}};
  std::int64_t world_size = 2;
  ValuePtr version = MakeText("2.0");

  ValuePtr Group() const {
    const ValuePtr mesh = Dict({{"device_type", MakeText("cpu")},
                                {"mesh_shape", MakeTuple(Integers(mesh_shape))},
                                {"mesh_data", MakeTuple(Integers(mesh_ranks))},
                                {"mesh_dim_names", MakeNone()}});
    const ValuePtr data = Dict({{"global_shape", MakeList(Integers(shape))},
                                {"dtype", MakeText(dtype)},
                                {"mesh_spec", mesh},
                                {"placements", MakeList(placements)}});
    return Dict({{"sharding_metadata", Dict({{"type", MakeText(kind)}, {"data", data}})},
                 {"ranks", MakeTuple(Integers(ranks))}});
  }
  ValuePtr Root(std::vector<ValuePtr> groups) const {
    const ValuePtr described = Dict({{"nested_path_to_metadata", Dict({{path, MakeList(std::move(groups))}})},
                                     {"rank_to_layout_info", MakeDict(layouts)}});
    return Dict(
        {{"metadata", Dict({{item, described}})}, {"world_size", MakeInteger(world_size)}, {"version", version}});
  }
  ValuePtr Root() const { return Root({Group()}); }
};

ValuePtr Layout(const std::string& path, const std::string& format) {
  return Dict({{"file_path", MakeText(path)}, {"serialization_format", Dict({{"type", MakeText(format)}})}});
}

// "model.a.0 bfloat16 [5, 3] on [2] of [0, 1]: Shard(0)"
std::vector<std::string> LinesOf(const RankMetadata& metadata) {
  std::vector<std::string> lines;
  for (const RankItem& item : metadata.items) {
    for (const SharedTensor& tensor : item.tensors) {
      const RankMesh& mesh = metadata.meshes[tensor.mesh];
      std::string line = fmt::format("{} {} {} {} on {} of {}:", item.name, PathText(tensor.path), Name(tensor.dtype),
                                     tensor.shape, mesh.shape, mesh.ranks);
      for (const Placement& placement : tensor.placements) {
        const bool cuts = placement.kind != Placement::Kind::kReplicate;
        line += cuts ? fmt::format(" {}/{}", placement.dim, placement.split_factor) : " whole";
      }
      lines.push_back(line);
    }
  }
  return lines;
}

std::string Refusal(std::string_view pickle) {
  auto metadata = ReadRankMetadata(pickle);
  return metadata ? "accepted" : TakeFailure(metadata.takeError()).message;
}
std::string Refusal(const ValuePtr& root) { return Refusal(pytorch::WritePickle(*root)); }
std::string Refusal(const Saved& saved) { return Refusal(saved.Root()); }

RankMetadata Read(const ValuePtr& root) {
  auto metadata = ReadRankMetadata(pytorch::WritePickle(*root));
  if (!metadata) {
    ADD_FAILURE() << TakeFailure(metadata.takeError()).message;
    return {};
  }
  return *std::move(metadata);
}

TEST(RankMetadataTest, ItemsAndTheirFiles) {
  Saved saved;
  saved.layouts[1].value = Layout("rank_1/other.pt", "TorchSerialization");
  const RankMetadata metadata = Read(saved.Root());
  EXPECT_EQ(metadata.world_size, 2);
  EXPECT_THAT(LinesOf(metadata), ElementsAre("model a.weight.0 bfloat16 [5, 3] on [2] of [0, 1]: 0/1"));
  EXPECT_THAT(metadata.items[0].files, ElementsAre("model_0.pt", "rank_1/other.pt"));
  EXPECT_THAT(metadata.items[0].holders, ElementsAre(true, true));
}

TEST(RankMetadataTest, PlacementsOfEachKind) {
  Saved saved;
  saved.mesh_shape = {2, 1, 1};
  saved.placements = {
      Dict({{"type", MakeText("StridedShard")}, {"dim", MakeInteger(1)}, {"split_factor", MakeInteger(4)}}),
      Dict({{"type", MakeText("Replicate")}}), Dict({{"type", MakeText("Shard")}, {"dim", MakeInteger(0)}})};
  EXPECT_THAT(LinesOf(Read(saved.Root())),
              ElementsAre("model a.weight.0 bfloat16 [5, 3] on [2, 1, 1] of [0, 1]: 1/4 whole 0/1"));
}

// As a norm that is whole on each rank of tensor parallelism: two meshes, each of which has all of it.
TEST(RankMetadataTest, TheMeshOfTheFirstRankCounts) {
  Saved one;
  one.world_size = 4;
  one.layouts = {};
  for (int rank = 0; rank < 4; ++rank) one.layouts.push_back({MakeInteger(rank), MakeNone()});
  Saved other = one;
  other.mesh_ranks = other.ranks = {2, 0};
  one.mesh_ranks = one.ranks = {3, 1};
  EXPECT_THAT(LinesOf(Read(one.Root({one.Group(), other.Group()}))),
              ElementsAre("model a.weight.0 bfloat16 [5, 3] on [2] of [2, 0]: 0/1"));
  other.shape = {5, 4};
  EXPECT_EQ(Refusal(one.Root({one.Group(), other.Group()})),
            "`a.weight.0` of the item `model` is of bfloat16 and [5, 3] on one mesh, and of bfloat16 and [5, 4] on "
            "another");
}

TEST(RankMetadataTest, Version1) {
  const Saved saved;
  const ValuePtr layouts = Dict({{"0", Dict({{"model", MakeNone()}, {"step", MakeNone()}})},
                                 {"1", Dict({{"model", Layout("m.pt", "TorchSerialization")}})}});
  const auto root = [&](const char* path) {
    return Dict({{"metadata", Dict({{path, MakeList({saved.Group()})}})},
                 {"world_size", MakeInteger(2)},
                 {"rank_to_layout_info_mappings", layouts}});
  };
  const RankMetadata metadata = Read(root(R"(["model","a",1])"));
  EXPECT_THAT(LinesOf(metadata), ElementsAre("model a.1 bfloat16 [5, 3] on [2] of [0, 1]: 0/1"));
  EXPECT_THAT(metadata.items[0].files, ElementsAre("model_0.pt", "m.pt"));
  EXPECT_EQ(Refusal(root("[]")), "the path `[]` does not begin with the name of an item");
}

Saved With(auto Saved::* member, auto value) {
  Saved saved;
  saved.*member = std::move(value);
  return saved;
}

Saved Placed(const std::vector<std::pair<std::string, ValuePtr>>& placement) {
  return With(&Saved::placements, std::vector<ValuePtr>{Dict(placement)});
}

TEST(RankMetadataTest, FormsThatAreNotReadAreRefusedByTheirNames) {
  EXPECT_EQ(Refusal(With(&Saved::version, MakeText("3.0"))), "its version is `3.0`, and 1.0 and 2.0 are read");
  EXPECT_EQ(Refusal(Placed({{"type", MakeText("Partial")}})),
            "`a.weight.0` of the item `model` is placed by `Partial`, and Shard, StridedShard and Replicate are read");
  EXPECT_EQ(Refusal(With(&Saved::kind, "default_tensor_v1")),
            "`a.weight.0` of the item `model` is shared as `default_tensor_v1` says it, and DTensorShardingMetadata "
            "alone is read");
  EXPECT_EQ(Refusal(With(&Saved::dtype, "torch.qint8")),
            "`a.weight.0` of the item `model` is of `torch.qint8`, which is not a known dtype");
  for (const char* format : {"JsonSerialization", "RawSerialization", "SafetensorsSerialization"}) {
    Saved saved;
    saved.layouts[0].value = Layout("m.json", format);
    EXPECT_EQ(Refusal(saved), fmt::format("`model` is saved by {} into `m.json`, and files of TorchSerialization are "
                                          "read; save it again without a layout of its own",
                                          format));
  }
}

TEST(RankMetadataTest, Contradictions) {
  EXPECT_EQ(Refusal(With(&Saved::world_size, 3)), "`world_size` is 3, and `model` has files of 2 ranks");
  EXPECT_EQ(Refusal(With(&Saved::world_size, 1)), "`model` has a file of rank 1, and `world_size` is 1");
  EXPECT_EQ(Refusal(With(&Saved::world_size, std::int64_t{1} << 62)),
            "`world_size` is 4611686018427387904, and `model` has files of 2 ranks");
  EXPECT_EQ(Refusal(With(&Saved::world_size, -1)), "`world_size` of it is -1, and a count is expected");
  EXPECT_EQ(Refusal(With(&Saved::mesh_ranks, std::vector<std::int64_t>{0, 2})),
            "the mesh of `a.weight.0` of the item `model` has the rank 2, and `world_size` is 2");
  EXPECT_THAT(Refusal(With(&Saved::mesh_ranks, std::vector<std::int64_t>{1, 1})), HasSubstr("has the rank 1 twice"));
  EXPECT_THAT(Refusal(With(&Saved::mesh_shape, std::vector<std::int64_t>{2, 2})),
              HasSubstr("has the shape [2, 2] and 2 ranks"));
  EXPECT_THAT(Refusal(With(&Saved::mesh_shape, std::vector<std::int64_t>{std::int64_t{1} << 62, 4})),
              HasSubstr("and 2 ranks"));
  EXPECT_THAT(Refusal(With(&Saved::mesh_shape, std::vector<std::int64_t>{2, 1})),
              HasSubstr("has 1 placements on a mesh of 2 dimensions"));
  EXPECT_THAT(Refusal(With(&Saved::ranks, std::vector<std::int64_t>{0})),
              HasSubstr("are 1 ranks, and its mesh has 2 or others"));
  EXPECT_THAT(Refusal(With(&Saved::shape, std::vector<std::int64_t>{-1})),
              HasSubstr("holds -1, and a count is expected"));
  EXPECT_THAT(Refusal(With(&Saved::shape, std::vector<std::int64_t>{std::int64_t{1} << 40, std::int64_t{1} << 40})),
              HasSubstr("is not the size of a tensor"));
  EXPECT_THAT(Refusal(Placed({{"type", MakeText("Shard")}, {"dim", MakeInteger(2)}})),
              HasSubstr("is cut along dimension 2, and has 2 dimensions"));
  EXPECT_THAT(Refusal(Placed({{"type", MakeText("Shard")}, {"dim", MakeInteger(-1)}})),
              HasSubstr("is -1, and a count is expected"));
  EXPECT_THAT(
      Refusal(Placed({{"type", MakeText("StridedShard")}, {"dim", MakeInteger(0)}, {"split_factor", MakeInteger(0)}})),
      HasSubstr("has the `split_factor` 0"));
  EXPECT_EQ(Refusal(Saved().Root({})), "`a.weight.0` of the item `model` is on no rank");
}

TEST(RankMetadataTest, Names) {
  for (const char* name : {"", "..", "a/b", "a.b", "ä"}) {
    EXPECT_EQ(Refusal(With(&Saved::item, name)), fmt::format("`{}` is not the name of an item", name));
  }
  for (const char* path : {"a", "{}", R"(["a)", R"(["a"]x)", "[1.5]", "[-1]", "[null]"}) {
    EXPECT_THAT(Refusal(With(&Saved::path, path)), HasSubstr("the path `")) << path;
  }
  for (const char* path : {"/etc/a.pt", "../a.pt", "a/../b.pt", "", "a//b"}) {
    Saved saved;
    saved.layouts[0].value = Layout(path, "TorchSerialization");
    EXPECT_THAT(Refusal(saved), HasSubstr("which is not below the folder")) << path;
  }
  Saved saved;
  saved.layouts[0].value = saved.layouts[1].value = Layout("a.pt", "TorchSerialization");
  EXPECT_EQ(Refusal(saved), "two ranks or items have the file `a.pt`");
}

TEST(RankMetadataTest, PicklesThatNameSomethingAreRefused) {
  constexpr const char* kWords = "it names a class or a function, and torch_checkpointing writes plain values";
  EXPECT_EQ(Refusal(With(&Saved::version, pytorch::MakeGlobal("os", "system"))), kWords);
  EXPECT_EQ(Refusal(With(&Saved::version, pytorch::MakeOrderedDict({}))), kWords);
  EXPECT_NE(Refusal(MakeNone()), "accepted");
}

// A list that the pickle names many times is read many times.
TEST(RankMetadataTest, ListsThatAreSharedAreCounted) {
  const Saved saved;
  const ValuePtr groups = MakeList(std::vector<ValuePtr>(1000, saved.Group()));
  std::vector<Entry> paths;
  for (int i = 0; i < 1000; ++i) paths.push_back({MakeText(fmt::format("[{}]", i)), groups});
  const ValuePtr item =
      Dict({{"nested_path_to_metadata", MakeDict(paths)}, {"rank_to_layout_info", MakeDict(saved.layouts)}});
  EXPECT_THAT(
      Refusal(
          Dict({{"metadata", Dict({{"model", item}})}, {"world_size", MakeInteger(2)}, {"version", MakeText("2.0")}})),
      HasSubstr("items of lists and dicts"));
}

// Any byte may be anything; nothing crashes, and what is accepted holds together.
TEST(RankMetadataTest, EveryChangedByteIsReadOrRefused) {
  const std::string whole = pytorch::WritePickle(*Saved().Root());
  for (std::size_t place = 0; place < whole.size(); ++place) {
    EXPECT_NE(Refusal(std::string_view(whole).substr(0, place)), "accepted") << place;
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[place] = static_cast<char>(bytes[place] ^ change);
      EXPECT_NE(Refusal(bytes), "");
    }
  }
}

}  // namespace
}  // namespace ucp::dcp
