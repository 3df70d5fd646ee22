// The boxes of the ranks of a machine, closed up: every element keeps its bytes, and finds its place in the job's
// tensor.
#include "runtime/job_state/part_of_job.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;

HeldEntry Tensor(std::vector<std::int64_t> shape, std::vector<HeldBox> boxes) {
  return {"w", {"w"}, true, DType::kFloat32, std::move(shape), std::move(boxes)};
}

// "of [8, 2]: [4, 2] at [0, 0]", one for each rank.
std::vector<std::string> Closed(std::vector<HeldState> ranks) {
  TakePart(ranks, 1);
  std::vector<std::string> lines;
  for (const HeldState& rank : ranks) {
    std::string line = fmt::format("of [{}]", fmt::join(rank.front().shape, ", "));
    for (const HeldBox& box : rank.front().boxes) {
      line += fmt::format(": [{}] at [{}]", fmt::join(box.sizes, ", "), fmt::join(box.offsets, ", "));
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(PartOfJobTest, RowsOfARowOfRanks) {
  EXPECT_THAT(Closed({{Tensor({16, 2}, {{{8, 0}, {4, 2}}})}, {Tensor({16, 2}, {{{12, 0}, {4, 2}}})}}),
              ElementsAre("of [8, 2]: [4, 2] at [0, 0]", "of [8, 2]: [4, 2] at [4, 0]"));
}

TEST(PartOfJobTest, RowsWithAGapAndColumns) {
  EXPECT_THAT(Closed({{Tensor({24, 4}, {{{2, 2}, {4, 2}}})}, {Tensor({24, 4}, {{{12, 2}, {4, 2}}})}}),
              ElementsAre("of [8, 2]: [4, 2] at [0, 0]", "of [8, 2]: [4, 2] at [4, 0]"));
}

TEST(PartOfJobTest, WholeTensorsStay) {
  std::vector<HeldState> ranks = {{Tensor({4}, {{{0}, {3}}})}, {Tensor({4}, {{{3}, {1}}})}};
  const std::vector<HeldState> before = ranks;
  EXPECT_TRUE(TakePart(ranks, 0).tensors.empty());
  EXPECT_EQ(ranks, before);
}

TEST(PartOfJobTest, NothingOfATensor) {
  EXPECT_THAT(Closed({{Tensor({3, 2}, {{{3, 0}, {0, 2}}})}, {Tensor({3, 2}, {})}}),
              ElementsAre("of [0, 2]: [0, 0] at [0, 0]", "of [0, 2]"));
  std::vector<HeldState> ranks = {{Tensor({3, 2}, {})}, {Tensor({3, 2}, {})}};
  TakePart(ranks, 0);
  llvm::Expected<JoinedState> joined = JoinStates(ranks);
  ASSERT_TRUE(static_cast<bool>(joined));
  EXPECT_THAT(joined->entries.front().shape, ElementsAre(0, 2));
  EXPECT_TRUE(joined->ranks[0].boxes.empty() && joined->ranks[1].boxes.empty());
}

TEST(PartOfJobTest, BoxesThatAreNotAProduct) {
  std::vector<HeldState> ranks = {{Tensor({4, 4}, {{{0, 0}, {2, 2}}})}, {Tensor({4, 4}, {{{2, 2}, {2, 2}}})}};
  TakePart(ranks, 0);
  llvm::Expected<JoinedState> joined = JoinStates(ranks);
  ASSERT_FALSE(joined);
  EXPECT_THAT(TakeFailure(joined.takeError()).message, ::testing::HasSubstr("hold 8 of the 16 elements"));
}

// Element by element: a box's element `at` has its place in the job's tensor by PartOfJob alone.
TEST(PartOfJobTest, PlacesComeBack) {
  const std::vector<HeldBox> boxes = {{{1}, {2}}, {{3}, {4}}, {{9}, {3}}, {{20}, {1}}};
  std::vector<HeldState> ranks;
  for (const HeldBox& box : boxes) ranks.push_back({Tensor({21}, {box})});
  const dcp::PartOfJob part = TakePart(ranks, 7);
  EXPECT_EQ(part.number, 7);
  const dcp::HeldPart& held = part.tensors.at("w");
  EXPECT_THAT(held.shape, ElementsAre(21));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const HeldBox& closed = ranks[rank].front().boxes.front();
    for (std::int64_t i = 0; i < closed.sizes[0]; ++i) {
      EXPECT_EQ(dcp::InJob(held.positions[0], closed.offsets[0] + i), boxes[rank].offsets[0] + i);
    }
  }
}

TEST(BoxesOfMachinesTest, ThoseOfItsRanks) {
  const std::vector<HeldState> ranks = {
      {Tensor({7, 2}, {{{0, 0}, {3, 2}}})}, {Tensor({7, 2}, {{{3, 0}, {4, 2}}})}, {Tensor({7, 2}, {{{7, 0}, {0, 2}}})}};
  llvm::Expected<JoinedState> joined = JoinStates(ranks);
  ASSERT_TRUE(static_cast<bool>(joined));
  const dcp::MachineFiles files = BoxesOfMachines(*joined, {0, 1, 1});
  EXPECT_EQ(files.machines, 2);
  const std::vector<std::pair<Box, std::int64_t>> expected = {{{{{0, 3}}, {{0, 2}}}, 0}, {{{{3, 7}}, {{0, 2}}}, 1}};
  EXPECT_EQ(files.boxes.at("w"), expected);
}

}  // namespace
}  // namespace ucp
