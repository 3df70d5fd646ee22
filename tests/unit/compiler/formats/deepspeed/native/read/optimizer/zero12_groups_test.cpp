#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"

#include <gtest/gtest.h>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::deepspeed {
namespace {

// Partitions of one group, of which only the lengths matter.
std::vector<OptimizerStates> Partitions(const std::vector<std::int64_t>& masters, std::int64_t moments) {
  std::vector<OptimizerStates> partitions;
  for (std::int64_t elements : masters) {
    OptimizerStates states;
    states.path = fmt::format("rank{}.pt", partitions.size());
    GroupPartition group;
    group.master.elements = elements;
    if (moments >= 0) group.states["exp_avg"].elements = moments;
    states.groups.push_back(group);
    partitions.push_back(std::move(states));
  }
  return partitions;
}

std::int64_t LengthOf(std::int64_t elements, const std::vector<std::int64_t>& masters, std::int64_t moments) {
  FlatGroup group;
  group.elements = elements;
  const std::vector<OptimizerStates> partitions = Partitions(masters, moments);
  std::vector<const OptimizerStates*> pointers;
  for (const OptimizerStates& partition : partitions) pointers.push_back(&partition);
  auto length = PartitionElements(group, 0, pointers);
  if (length) return *length;
  llvm::consumeError(length.takeError());
  return -1;
}

TEST(FlatGroups, FollowEachOther) {
  auto group = LayOutGroup({{"a", {2, 3}}, {"b", {}}, {"c", {0}}, {"d", {5}}}, {});
  ASSERT_TRUE(static_cast<bool>(group));
  EXPECT_EQ(group->elements, 12);
  EXPECT_EQ(group->parameters[1].offset, 6);
  EXPECT_EQ(group->parameters[2].offset, 7);
  EXPECT_EQ(group->parameters[3].offset, 7);
}

TEST(FlatGroups, HavePaddingBetweenParameters) {
  auto group = LayOutGroup({{"a", {3}}, {"b", {9}}, {"c", {2}}}, {5, 7, 0});
  ASSERT_TRUE(static_cast<bool>(group));
  EXPECT_EQ(group->elements, 26);
  EXPECT_EQ(group->parameters[1].offset, 8);
  EXPECT_EQ(group->parameters[2].offset, 24);
}

TEST(FlatGroups, RefuseListsThatDoNotFit) {
  FailureText failure = testing::FailureOf(LayOutGroup({{"a", {3}}}, {0, 0}));
  EXPECT_EQ(failure.message, "`param_alignment_paddings` has 2 entries for 1 parameters");
  const std::int64_t huge = std::int64_t{1} << 62;
  failure = testing::FailureOf(LayOutGroup({{"a", {huge}}, {"b", {huge}}}, {}));
  EXPECT_EQ(failure.message, "the shapes in `param_shapes` up to `b` have more than 2^63 elements");
}

TEST(FlatGroups, PartitionLengths) {
  // n, masters as they are in the files, moments (-1: none): the length that the rule of the format gives.
  EXPECT_EQ(LengthOf(10, {4, 4, 2, 0}, 4), 4);   // 16 / 4
  EXPECT_EQ(LengthOf(10, {4, 4, 4, 4}, 4), 4);   // BF16_Optimizer keeps the padding
  EXPECT_EQ(LengthOf(10, {4, 4, 2, 0}, -1), 4);  // before the first step
  EXPECT_EQ(LengthOf(3, {2, 1, 0, 0}, 2), 2);    // two partitions of padding alone
  EXPECT_EQ(LengthOf(3, {2, 1, 0, 0}, -1), 2);
  EXPECT_EQ(LengthOf(1, {1, 0}, -1), 2);
  EXPECT_EQ(LengthOf(7, {7}, 8), 8);
  EXPECT_EQ(LengthOf(7, {7}, -1), 8);
  EXPECT_EQ(LengthOf(9, {3, 3, 3}, 3), 3);  // an old version's alignment
}

TEST(FlatGroups, PartitionsThatDoNotFit) {
  EXPECT_EQ(LengthOf(10, {6, 6, 6, 6}, 6), -1);
  EXPECT_EQ(LengthOf(17, {4, 4, 4, 4}, 4), -1);
  EXPECT_EQ(LengthOf(10, {4, 4, 1, 0}, 4), -1);  // the third lacks an element
  EXPECT_EQ(LengthOf(10, {4, 4, 5, 0}, 4), -1);  // longer than a partition
}

TEST(FlatGroups, CompareAddresses) {
  auto group = LayOutGroup({{"a", {6}}, {"b", {5}}}, {});
  ASSERT_TRUE(static_cast<bool>(group));
  GroupPartition partition;
  partition.addresses = {{"a", {0, 2}}, {"b", {2, 2}}};
  EXPECT_EQ(CompareAddresses(*group, 4, 1, partition).count, 0);
  partition.addresses = {{"a", {0, 2}}, {"b", {1, 2}}};
  AddressMismatch mismatch = CompareAddresses(*group, 4, 1, partition);
  EXPECT_EQ(mismatch.count, 1);
  EXPECT_EQ(mismatch.example, "b");
  partition.addresses = {{"a", {0, 2}}};
  EXPECT_EQ(CompareAddresses(*group, 4, 1, partition).count, 1);
  partition.addresses = {};  // The file says nothing.
  EXPECT_EQ(CompareAddresses(*group, 4, 1, partition).count, 0);
}

}  // namespace
}  // namespace ucp::deepspeed
