// Boxes that several ranks hold: sums of their elements, and the sentence where they differ.
#include "runtime/save/replicas.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "compiler/support/error.h"

namespace ucp {
namespace {

SumLanes SumOf(const BoxMemory& box, unsigned threads) {
  const std::array<const BoxMemory*, 1> boxes = {&box};
  llvm::Expected<std::vector<SumLanes>> sums = SumsOfBoxes(boxes, {threads, nullptr});
  EXPECT_TRUE(static_cast<bool>(sums));
  return sums->front();
}

TEST(ReplicasTest, ASumIsThatOfTheElementsWhereverTheyLie) {
  constexpr std::int64_t kRows = 1500;
  constexpr std::int64_t kColumns = 1100;  // More bytes than one piece has.
  std::vector<float> rows(static_cast<std::size_t>(kRows * kColumns));
  std::iota(rows.begin(), rows.end(), 0.0F);
  std::vector<float> columns(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) columns[i % kColumns * kRows + i / kColumns] = rows[i];
  const BoxMemory by_rows{reinterpret_cast<const std::byte*>(rows.data()), 4, {kRows, kColumns}, {kColumns, 1}};
  const BoxMemory by_columns{reinterpret_cast<const std::byte*>(columns.data()), 4, {kRows, kColumns}, {1, kRows}};
  const SumLanes sum = SumOf(by_rows, 1);
  EXPECT_EQ(SumOf(by_rows, 2), sum);
  EXPECT_EQ(SumOf(by_columns, 2), sum);
  std::swap(rows[0], rows[1]);
  EXPECT_NE(SumOf(by_rows, 1), sum);
}

JoinedState Joined(const HeldState& state, std::size_t ranks) {
  llvm::Expected<JoinedState> joined = JoinStates(std::vector<HeldState>(ranks, state));
  if (!joined) throw std::runtime_error(TakeFailure(joined.takeError()).message);
  return std::move(*joined);
}

TEST(ReplicasTest, TheFirstDifferenceIsNamed) {
  const JoinedState joined = Joined({{"a", {"a"}, true, DType::kFloat32, {4}, {{{0}, {4}}}},
                                     {"b", {"b"}, true, DType::kFloat32, {2, 3}, {{{0, 0}, {1, 3}}, {{1, 0}, {1, 3}}}}},
                                    3);
  std::vector<std::vector<SumLanes>> sums(3, std::vector<SumLanes>(3, SumLanes{1, 2, 3, 4}));
  EXPECT_FALSE(static_cast<bool>(CompareReplicas(joined, sums)));
  sums[1][2][3] = 5;
  EXPECT_EQ(
      TakeFailure(CompareReplicas(joined, sums)).message,
      "`b` is not the same on all ranks that hold the box [1, 3] at [1, 0] of it: rank 1 differs from ranks 0, 2; "
      "nothing was written");
  sums[0][0][0] = 5;
  EXPECT_EQ(TakeFailure(CompareReplicas(joined, sums)).message,
            "`a` is not the same on all ranks that hold the box [4] at [0] of it: ranks 1, 2 differ from rank 0; and 1 "
            "more box differs; nothing was written");
  sums[2].clear();
  EXPECT_EQ(TakeFailure(CompareReplicas(joined, sums)).message, "rank 2 did not send all its digests");
}

TEST(ReplicasTest, BoxesOfOneRankAreNotCompared) {
  llvm::Expected<JoinedState> joined = JoinStates({{{"a", {"a"}, true, DType::kFloat32, {4}, {{{0}, {2}}}}},
                                                   {{"a", {"a"}, true, DType::kFloat32, {4}, {{{2}, {2}}}}}});
  ASSERT_TRUE(static_cast<bool>(joined));
  EXPECT_TRUE(joined->replicas.empty());
  EXPECT_FALSE(static_cast<bool>(CompareReplicas(*joined, std::vector<std::vector<SumLanes>>(2))));
}

}  // namespace
}  // namespace ucp
