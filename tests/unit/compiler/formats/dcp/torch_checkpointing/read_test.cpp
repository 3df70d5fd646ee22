// A folder that the real package saved on two ranks, with FSDP. Elements are their places in the tensor.
#include "compiler/formats/dcp/torch_checkpointing/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSample = UCP_SOURCE_DIR "/tests/unit/compiler/formats/dcp/samples/torch_checkpointing";

TEST(ReadTorchCheckpointingTest, ThePartsOfTwoRanks) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), kSample);
  const Inventory& inventory = checkpoint.inventory;
  EXPECT_EQ(inventory.format, "dcp");
  EXPECT_EQ(checkpoint.training.tag, "torch_checkpointing");
  ASSERT_EQ(inventory.storage.shards.size(), 2U);
  EXPECT_EQ(inventory.storage.shards[1].tensor, "a.weight");
  const TensorBoxes& boxes = inventory.boxes()->at("a.weight");
  EXPECT_THAT(boxes.shape, ElementsAre(4, 3));
  EXPECT_EQ(ToString(boxes.boxes.at(1)), "[2..4, 0..3]");
  const std::string bytes = testing::GatherShard(inventory, inventory.storage.shards[1], "weight");
  std::vector<float> elements(bytes.size() / sizeof(float));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  EXPECT_THAT(elements, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(pytorch::Print(*pytorch::MakeDict(checkpoint.training.ranks.front().client)), "{'step': 7}");
}

// Of an archive by itself nobody can say which part of the tensor a rank's is.
TEST(ReadTorchCheckpointingTest, PartsOfDTensorsAreReadWhereTheyAreAskedFor) {
  auto file = RealFiles().OpenForReading(kSample + "/model_1.pt");
  ASSERT_TRUE(static_cast<bool>(file));
  auto refused = pytorch::ReadArchive(**file);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_THAT(TakeFailure(refused.takeError()).message,
              HasSubstr("a tensor of the kind that `_rebuild_wrapper_subclass` makes is not served"));
  pytorch::ArchiveOptions options;
  options.limits.local_of_dtensors = true;
  auto archive = pytorch::ReadArchive(**file, options);
  ASSERT_TRUE(static_cast<bool>(archive)) << TakeFailure(archive.takeError()).message;
  const auto* tensor = pytorch::Find(*archive->root(), "a.weight")->As<pytorch::Tensor>();
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->sizes, ElementsAre(2, 3));
  EXPECT_NE(tensor->python_class, nullptr);
  EXPECT_EQ(tensor->attributes, nullptr);
}

}  // namespace
}  // namespace ucp::dcp
