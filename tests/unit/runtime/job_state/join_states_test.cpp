// The states of ranks together: every element once, from a rank that has it, and about equally many bytes of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "compiler/support/error.h"
#include "runtime/job_state/job_state.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

HeldEntry Tensor(std::string key, std::vector<std::int64_t> shape, std::vector<HeldBox> boxes) {
  return {key, {key}, true, DType::kFloat32, std::move(shape), std::move(boxes)};
}
HeldEntry Value(std::string key) { return {key, {key}, false, DType::kFloat32, {}, {}}; }

std::string ErrorOf(const std::vector<HeldState>& ranks) {
  llvm::Expected<JoinedState> joined = JoinStates(ranks);
  return joined ? "no error" : TakeFailure(joined.takeError()).message;
}

JoinedState Joined(const std::vector<HeldState>& ranks) {
  llvm::Expected<JoinedState> joined = JoinStates(ranks);
  if (!joined) throw std::runtime_error(TakeFailure(joined.takeError()).message);
  return std::move(*joined);
}

// Element by element: each is in one chunk, whose rank has said that it holds this very box, and stages it at the place
// of the chunk.
void ExpectEachOnce(const std::vector<HeldState>& ranks, const JoinedState& joined) {
  for (const dcp::Entry& entry : joined.entries) {
    if (!entry.is_tensor) continue;
    std::map<std::vector<std::int64_t>, int> seen;
    for (const dcp::Chunk& chunk : entry.chunks) {
      const RankShare& share = joined.ranks[chunk.place.file];
      const auto staged = std::ranges::find(share.boxes, chunk.place.offset, &StagedBox::offset);
      ASSERT_NE(staged, share.boxes.end());
      const HeldEntry& held = ranks[chunk.place.file][staged->entry];
      ASSERT_EQ(held.key, entry.key);
      ASSERT_EQ(held.boxes[staged->box].offsets, chunk.offsets);
      ASSERT_EQ(held.boxes[staged->box].sizes, chunk.sizes);
      ASSERT_LE(staged->offset + staged->bytes, share.bytes);
      std::vector<std::int64_t> at(chunk.offsets.begin(), chunk.offsets.end());
      std::int64_t elements = 1;
      for (const std::int64_t size : chunk.sizes) elements *= size;
      for (std::int64_t i = 0; i < elements; ++i) {
        ++seen[at];
        for (std::size_t d = at.size(); d-- > 0;) {
          if (++at[d] < chunk.offsets[d] + chunk.sizes[d]) break;
          at[d] = chunk.offsets[d];
        }
      }
    }
    std::int64_t elements = 1;
    for (const std::int64_t size : entry.shape) elements *= size;
    EXPECT_EQ(std::ssize(seen), elements) << entry.key;
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& element) { return element.second == 1; }));
  }
}

// Places of boxes in one segment do not meet.
void ExpectApart(const JoinedState& joined) {
  for (const RankShare& share : joined.ranks) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
    for (const StagedBox& box : share.boxes) extents.emplace_back(box.offset, box.offset + box.bytes);
    std::ranges::sort(extents);
    for (std::size_t i = 1; i < extents.size(); ++i) EXPECT_LE(extents[i - 1].second, extents[i].first);
  }
}

TEST(JoinStatesTest, RowsOfTwoRanks) {
  const std::vector<HeldState> ranks = {{Tensor("w", {5, 2}, {{{0, 0}, {3, 2}}})},
                                        {Tensor("w", {5, 2}, {{{3, 0}, {2, 2}}})}};
  const JoinedState joined = Joined(ranks);
  ExpectEachOnce(ranks, joined);
  EXPECT_EQ(joined.ranks[0].boxes.front().bytes, 24U);
  EXPECT_EQ(joined.ranks[1].boxes.front().bytes, 16U);
}

TEST(JoinStatesTest, ReplicasAreDealt) {
  HeldState state;
  std::mt19937 random(7);
  std::uint64_t largest = 0;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 40);
    largest = std::max(largest, static_cast<std::uint64_t>(rows * 32 * 4));
    state.push_back(Tensor("w" + std::to_string(i), {rows, 32}, {{{0, 0}, {rows, 32}}}));
  }
  const std::vector<HeldState> ranks(8, state);
  const JoinedState joined = Joined(ranks);
  ExpectEachOnce(ranks, joined);
  ExpectApart(joined);
  std::uint64_t total = 0;
  std::uint64_t most = 0;
  for (const RankShare& share : joined.ranks) {
    std::uint64_t bytes = 0;
    for (const StagedBox& box : share.boxes) bytes += box.bytes;
    total += bytes;
    most = std::max(most, bytes);
  }
  EXPECT_LE(most, total / 8 + largest);
}

TEST(JoinStatesTest, RandomPartitionsWithReplicas) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 4;
    std::vector<HeldState> ranks(count);
    for (int t = 0; t < 5; ++t) {
      const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 9);
      const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % 4);
      std::vector<HeldEntry> held(count, Tensor("t" + std::to_string(t), {rows, columns}, {}));
      for (std::int64_t begin = 0; begin < rows;) {
        const std::int64_t size = std::min<std::int64_t>(rows - begin, 1 + static_cast<std::int64_t>(random() % 3));
        const std::size_t first = random() % count;
        for (std::size_t rank = 0; rank < count; ++rank) {
          if (rank == first || random() % 3 == 0) held[rank].boxes.push_back({{begin, 0}, {size, columns}});
        }
        begin += size;
      }
      for (std::size_t rank = 0; rank < count; ++rank) {
        if (!held[rank].boxes.empty() || random() % 2 == 0) ranks[rank].push_back(held[rank]);
      }
    }
    const JoinedState joined = Joined(ranks);
    ExpectEachOnce(ranks, joined);
    ExpectApart(joined);
  }
}

TEST(JoinStatesTest, ScalarsAndTensorsWithoutElements) {
  const std::vector<HeldState> ranks(
      2, HeldState{Tensor("step", {}, {{{}, {}}}), Tensor("none", {0, 4}, {{{0, 0}, {0, 4}}})});
  const JoinedState joined = Joined(ranks);
  ExpectEachOnce(ranks, joined);
  EXPECT_EQ(joined.entries.size(), 2U);
}

TEST(JoinStatesTest, ValuesAreOfTheFirstRankThatHasThem) {
  const JoinedState joined = Joined({{Value("a")}, {Value("a"), Value("b")}});
  EXPECT_EQ(joined.ranks[0].values, std::vector<std::size_t>{0});
  EXPECT_EQ(joined.ranks[1].values, std::vector<std::size_t>{1});
}

TEST(JoinStatesTest, RanksThatDisagree) {
  EXPECT_EQ(ErrorOf({{Tensor("w", {2}, {{{0}, {2}}})}, {Tensor("w", {3}, {{{0}, {3}}})}}),
            "`w` is a tensor [2] of float32 on rank 0 and a tensor [3] of float32 on rank 1");
  EXPECT_EQ(ErrorOf({{Tensor("w", {2}, {{{0}, {2}}})}, {Value("w")}}),
            "`w` is a tensor [2] of float32 on rank 0 and a value on rank 1");
  EXPECT_EQ(ErrorOf({{Value("w"), Value("w")}}), "rank 0 has two entries `w`");
}

TEST(JoinStatesTest, BoxesThatAreNotAPartition) {
  EXPECT_THAT(ErrorOf({{Tensor("w", {4}, {{{0}, {2}}})}, {Tensor("w", {4}, {{{3}, {1}}})}}),
              HasSubstr("of ranks 0, 1: the 2 chunks of `w` hold 3 of the 4 elements"));
  EXPECT_THAT(ErrorOf({{Tensor("w", {4}, {{{0}, {3}}})}, {Tensor("w", {4}, {{{2}, {2}}})}}),
              HasSubstr("have elements in common"));
  EXPECT_THAT(ErrorOf({{Tensor("w", {4}, {{{0}, {5}}})}}), HasSubstr("not within the tensor"));
  EXPECT_THAT(ErrorOf({{Tensor("w", {4}, {})}, {Tensor("w", {4}, {})}}), HasSubstr("no rank holds a part of it"));
  EXPECT_THAT(ErrorOf({{Tensor("w", {4}, {{{0}, {4}}, {{0}, {4}}})}}), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf({{Tensor("w", {std::int64_t{1} << 62, 8}, {})}}), HasSubstr("not the size of a tensor"));
}

}  // namespace
}  // namespace ucp
