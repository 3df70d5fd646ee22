// The parts that ranks hold, as a target: compared with the request of each rank, position by position.
#include "runtime/job_tensors/job_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobTensor Held(std::vector<std::int64_t> shape, Box holds, std::string state = "weight") {
  return {"a", std::move(state), DType::kFloat32, std::move(shape), std::move(holds)};
}

std::string ErrorOf(const std::vector<JobTensorsOfRank>& ranks) {
  llvm::Expected<LaidOutJobTensors> target = LayOutJobTensors(ranks);
  return target ? "no error" : TakeFailure(target.takeError()).message;
}

const Shard& ShardOf(const LaidOutJobTensors& target, RecordId record) {
  for (const Shard& shard : target.files.storage.shards) {
    BufferId buffer = target.files.storage.buffer_set(shard.states).front().buffer;
    if (target.files.storage.buffer(buffer).parts.front().record == record) return shard;
  }
  throw std::runtime_error("no shard has the record");
}

Positions PositionsOf(const Selection& selection) {
  Positions positions;
  for (const Run& run : selection.runs()) {
    positions.push_back({run.logical_begin, run.logical_begin + run.length});
  }
  return positions;
}

// Every record must be of a shard whose place in the layout holds exactly what the rank said.
void ExpectAsSaid(const std::vector<JobTensorsOfRank>& ranks, const LaidOutJobTensors& target) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t i = 0; i < ranks[rank].size(); ++i) {
      const JobTensor& held = ranks[rank][i];
      std::optional<RecordId> record = target.records[rank][i];
      bool is_empty = std::any_of(held.holds.begin(), held.holds.end(), [](const auto& dim) { return dim.empty(); });
      ASSERT_EQ(record.has_value(), !is_empty);
      if (!record) continue;
      const Shard& shard = ShardOf(target, *record);
      llvm::Expected<ProductSet> set = HeldAt(*target.layout.Find(held.tensor), target.layout.mesh, shard.coordinate);
      ASSERT_TRUE(static_cast<bool>(set));
      Box found;
      for (const Selection& dim : set->dims) found.push_back(PositionsOf(dim));
      ASSERT_EQ(found, held.holds) << "rank " << rank;
      ASSERT_EQ(set->LocalShape(), shard.shape);
      ASSERT_TRUE(target.readers.IsReadBy(target.files.storage.record(*record).file, static_cast<int>(rank)));
    }
  }
}

TEST(JobTensorsTest, EqualPartsAreOneFileOfSeveralReaders) {
  JobTensor upper = Held({5, 2}, {{{0, 3}}, {{0, 2}}});
  JobTensor lower = Held({5, 2}, {{{3, 5}}, {{0, 2}}});
  std::vector<JobTensorsOfRank> ranks = {{upper}, {lower}, {upper}};
  llvm::Expected<LaidOutJobTensors> target = LayOutJobTensors(ranks);
  ASSERT_TRUE(static_cast<bool>(target));
  ExpectAsSaid(ranks, *target);
  ASSERT_EQ(target->files.storage.files.size(), 2U);
  EXPECT_EQ(target->records[0], target->records[2]);
  EXPECT_THAT(target->readers.Of(target->files.storage.record(*target->records[0][0]).file), ElementsAre(0, 2));
  EXPECT_EQ(target->files.storage.record(*target->records[1][0]).bytes, 2U * 2 * 4);
}

// Parts of every kind: one behind the other, strided, overlapping, empty.
TEST(JobTensorsTest, RandomParts) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 9);
    const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % 4);
    std::vector<JobTensorsOfRank> ranks(
        1, {Held({rows, columns}, {{{0, rows}}, {{0, columns}}})});  // So nothing is missing.
    for (std::size_t rank = 1; rank < 1 + random() % 4; ++rank) {
      Positions some;
      for (std::int64_t row = 0; row < rows; ++row) {
        if (random() % 2 == 0) continue;
        if (some.empty() || some.back().end != row) some.push_back({row, row});
        some.back().end = row + 1;
      }
      const auto cut = static_cast<std::int64_t>(random()) % (columns + 1);
      ranks.push_back({Held({rows, columns}, {some, cut > 0 ? Positions{{0, cut}} : Positions{}})});
    }
    llvm::Expected<LaidOutJobTensors> target = LayOutJobTensors(ranks);
    ASSERT_TRUE(static_cast<bool>(target)) << TakeFailure(target.takeError()).message;
    ExpectAsSaid(ranks, *target);
  }
}

TEST(JobTensorsTest, WhatCannotBeIsRefused) {
  const JobTensor whole = Held({4}, {{{0, 4}}});
  EXPECT_THAT(ErrorOf({{whole}, {Held({5}, {{{0, 5}}})}}), HasSubstr("[4] on rank 0 and [5] on rank 1"));
  EXPECT_THAT(ErrorOf({{whole, whole}}), HasSubstr("rank 0 holds `weight` of tensor `a` twice"));
  EXPECT_THAT(ErrorOf({{Held({4}, {{{0, 5}}})}}), HasSubstr("rank 0 holds positions of tensor `a`"));
  EXPECT_THAT(ErrorOf({{Held({4}, {{{2, 4}, {0, 2}}})}}), HasSubstr("rank 0 holds positions of tensor `a`"));
  EXPECT_THAT(ErrorOf({{Held({4}, {})}}), HasSubstr("rank 0 holds positions of tensor `a`"));
  EXPECT_THAT(ErrorOf({{Held({4}, {{{0, 2}}})}, {Held({4}, {{{3, 4}}})}}), HasSubstr("3 of the 4 elements"));
}

// The rest of a tensor that nobody holds is a file of its own, which no rank reads. One rank may hold several parts.
TEST(HeldTensorsTest, PartsMayBeEnough) {
  const std::vector<JobTensorsOfRank> ranks = {{Held({9, 2}, {{{0, 3}}, {{0, 2}}}), Held({9, 2}, {{{5, 6}}, {{1, 2}}})},
                                               {Held({9, 2}, {{{2, 4}}, {{0, 2}}})}};
  EXPECT_THAT(ErrorOf(ranks), HasSubstr("the ranks hold 11 of the 18 elements"));
  llvm::Expected<LaidOutJobTensors> target = LayOutJobTensors(ranks, JobTensorParts::kSome);
  ASSERT_TRUE(static_cast<bool>(target)) << TakeFailure(target.takeError()).message;
  ExpectAsSaid(ranks, *target);
  ASSERT_EQ(target->files.storage.files.size(), 4U);
  const FileId rest(3);
  EXPECT_EQ(target->files.storage.files[3].bytes, 9U * 2 * 4);
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(target->readers.IsReadBy(rest, rank));

  const std::vector<JobTensorsOfRank> all = {{Held({4}, {{{0, 2}}})}, {Held({4}, {{{2, 4}}})}};
  llvm::Expected<LaidOutJobTensors> complete = LayOutJobTensors(all, JobTensorParts::kSome);
  ASSERT_TRUE(static_cast<bool>(complete));
  EXPECT_EQ(complete->files.storage.files.size(), 2U);
}

TEST(HeldTensorsTest, BytesForOtherRanks) {
  JobTensorsOfRank held = {Held({4, 3}, {{{0, 1}, {2, 4}}, {}}), Held({}, {}, "exp_avg")};
  held.front().second_names = {"b", "c"};
  const std::string bytes = Encode(held);
  llvm::Expected<JobTensorsOfRank> again = DecodeJobTensors(bytes);
  ASSERT_TRUE(static_cast<bool>(again));
  EXPECT_EQ(*again, held);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    llvm::Expected<JobTensorsOfRank> cut = DecodeJobTensors(bytes.substr(0, size));
    ASSERT_FALSE(static_cast<bool>(cut)) << size;
    ASSERT_THAT(TakeFailure(cut.takeError()).message, HasSubstr("do not say what it holds"));
  }
  llvm::Expected<JobTensorsOfRank> longer = DecodeJobTensors(bytes + "x");
  ASSERT_FALSE(static_cast<bool>(longer));
  llvm::consumeError(longer.takeError());
}

}  // namespace
}  // namespace ucp
