// A folder of PyTorch's own writer with the extension `ZStandard`; elements are their places in the tensor.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "compiler/files/zstd_stream.h"
#include "compiler/formats/dcp/packed_items.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/dcp/saved_dict.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class ZstdItems : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasZstd()) GTEST_SKIP() << "this build has no zstd";
  }
};

TEST_F(ZstdItems, AreReadAsTheirTensors) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), SamplePath("compressed"));
  const Storage& storage = checkpoint.inventory.storage;
  std::vector<std::string> names;
  for (const Shard& shard : storage.shards) names.push_back(fmt::format("{} {}", shard.tensor, shard.strides.size()));
  EXPECT_THAT(names, ElementsAre("a.weight 0", "a.bias 0", "turned 2"));
  std::vector<float> places(4096);
  std::iota(places.begin(), places.end(), 0.0F);
  const std::string bytes = testing::GatherShard(checkpoint.inventory, storage.shards[0], "weight");
  std::vector<float> elements(bytes.size() / sizeof(float));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  EXPECT_EQ(elements, places);
  EXPECT_EQ(pytorch::Print(*pytorch::MakeDict(checkpoint.training.ranks.front().client)), "{'epoch': 3}");
}

// The packed file stays one of the source's, so that a change of it is seen.
TEST_F(ZstdItems, AreFilesBesideThePackedOne) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), SamplePath("compressed"));
  std::vector<std::string> paths;
  for (const StoredFile& file : checkpoint.inventory.storage.files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre(".metadata", "__0_0.distcp", StartsWith("__0_0.distcp/zstd:0+"),
                                 StartsWith("__0_0.distcp/zstd:"), StartsWith("__0_0.distcp/zstd:"),
                                 StartsWith("__0_0.distcp/zstd:")));
}

TEST_F(ZstdItems, AreListedForScans) {
  const std::string folder = SamplePath("compressed");
  const std::vector<PackedArchive> items = llvm::cantFail(PackedItems(RealFiles(), folder));
  EXPECT_EQ(items.size(), 4U);
  for (const PackedArchive& item : items) {
    EXPECT_EQ(item.file, "__0_0.distcp");
    const auto file = llvm::cantFail(RealFiles().OpenForReading(JoinPath(folder, item.unpacked)));
    auto archive = pytorch::ReadArchive(*file, {0, file->bytes()}, {});
    EXPECT_TRUE(static_cast<bool>(archive)) << llvm::toString(archive.takeError());
  }
}

}  // namespace
}  // namespace ucp::dcp
