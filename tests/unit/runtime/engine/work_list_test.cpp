#include "runtime/engine/work_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/unit/runtime/executor/small_conversion.h"

namespace ucp {
namespace {

TEST(WorkListTest, ChunksCoverEveryRangeOnceInFileOrder) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({});
  small.SetTarget({.tp = 2, .dp = 3, .alignment = 4});
  small.Finish();
  const Plan& plan = small.plan();
  for (std::uint64_t chunk_bytes : {16U, 40U, 100U, 1U << 20}) {
    WorkList work(plan, chunk_bytes);
    std::map<std::pair<std::size_t, std::string>, std::int64_t> elements;
    std::vector<std::uint32_t> chunks_of_files(plan.target.files.size(), 0);
    std::pair<FileId, std::uint64_t> last;
    for (std::uint64_t number = 0; number < work.chunks(); ++number) {
      const std::vector<TargetRange> chunk = work.chunk(number);
      std::pair<FileId, std::uint64_t> begin;  // Of the chunk.
      for (const TargetRange& range : chunk) {
        ASSERT_LT(range.begin, range.end);
        elements[{range.write, range.state}] += range.end - range.begin;
        const Record& record = plan.target.record(range.record);
        std::pair place(record.file, record.begin + static_cast<std::uint64_t>(range.record_element) * 4);
        ASSERT_GE(place, last);  // Disjoint ranges in order; a range that were given twice would come before `last`.
        last = {record.file, place.second + static_cast<std::uint64_t>(range.end - range.begin) * 4};
        if (&range == &chunk.front()) begin = place;
      }
      ASSERT_EQ(begin.first, last.first);
      ASSERT_LE(last.second - begin.second, chunk_bytes);
      ++chunks_of_files[last.first.index()];
    }
    for (std::size_t w = 0; w < plan.writes.size(); ++w) {
      for (const char* state : {"exp_avg", "fp32"}) {
        EXPECT_EQ((elements[{w, state}]), plan.LocalElements(plan.writes[w]));
      }
    }
    for (std::size_t file = 0; file < chunks_of_files.size(); ++file) {
      EXPECT_EQ(work.WorkOfFiles()[file].chunks, chunks_of_files[file]);
    }
  }
}

TEST(WorkListTest, ChunksAreWholeRowsWhereTheyFit) {
  SmallConversion small({{"a", {10, 6}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  WorkList work(small.plan(), 64);  // Two rows of 24 bytes.
  EXPECT_EQ(work.chunks(), 10U);    // Five for each state.
  ASSERT_EQ(work.chunk(1).size(), 1U);
  EXPECT_EQ(work.chunk(1).front().begin, 12);
}

// Each element by where it is written.
std::map<std::pair<RecordId, std::int64_t>, int> Elements(const WorkList& work) {
  std::map<std::pair<RecordId, std::int64_t>, int> elements;
  for (std::uint64_t number = 0; number < work.chunks(); ++number) {
    for (const TargetRange& range : work.chunk(number)) {
      for (std::int64_t i = 0; i < range.end - range.begin; ++i) ++elements[{range.record, range.record_element + i}];
    }
  }
  return elements;
}

// Of two waves, whose borders are anywhere in a file: the chunks of each stand together, and a chunk is of one.
TEST(WorkListTest, ChunksStandWaveByWave) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({});
  small.SetTarget({.tp = 2, .dp = 3, .alignment = 4});
  small.Finish();
  const Plan& plan = small.plan();
  SourceWaves waves{3, [](const StoredFile&, std::uint64_t offset) { return offset / 4 % 2 == 0 ? 2 : 0; }, {}};
  const WorkList work(plan, 100, {}, {}, &waves);
  const StepEnumerator steps(plan);
  EXPECT_EQ(work.FirstChunkOf(0), 0U);
  EXPECT_EQ(work.FirstChunkOf(1), work.FirstChunkOf(2));
  EXPECT_GT(work.FirstChunkOf(1), 0U);
  EXPECT_LT(work.FirstChunkOf(2), work.chunks());
  EXPECT_EQ(work.FirstChunkOf(3), work.chunks());
  for (std::uint64_t number = 0; number < work.chunks(); ++number) {
    for (const TargetRange& range : work.chunk(number)) {
      EXPECT_EQ(WaveOf(waves, plan, steps, range), number < work.FirstChunkOf(1) ? 0U : 2U);
    }
  }
  EXPECT_EQ(Elements(work), Elements(WorkList(plan, 100)));
}

// Some chunks are done with one size, some of the rest with another, and so on: each element is done once, and files
// know whether they were begun.
TEST(WorkListTest, WhatIsDoneIsLeftOut) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({});
  small.SetTarget({.tp = 2, .dp = 3, .alignment = 4});
  small.Finish();
  const Plan& plan = small.plan();
  const auto all = Elements(WorkList(plan, 40));
  std::mt19937 random(20261121);
  for (int round = 0; round < 50; ++round) {
    std::vector<ElementInterval> done;
    std::map<std::pair<RecordId, std::int64_t>, int> seen;
    for (std::uint64_t chunk_bytes : {16U, 60U, 24U, 100U}) {
      WorkList work(plan, chunk_bytes, done);
      std::vector<FileWork> files = work.WorkOfFiles();
      for (std::size_t file = 0; file < files.size(); ++file) {
        bool is_begun = false;
        for (const auto& [place, count] : seen) {
          is_begun = is_begun || plan.target.record(place.first).file == FileId(file);
        }
        ASSERT_EQ(files[file].is_begun, is_begun);
      }
      for (int times = 0; times < 2 && work.chunks() > 0; ++times) {
        std::uint64_t first = std::uniform_int_distribution<std::uint64_t>(0, work.chunks())(random);
        std::uint64_t end =
            std::uniform_int_distribution<std::uint64_t>(first, std::min(work.chunks(), first + 3))(random);
        work.AddElements(first, end, done);
        for (std::uint64_t number = first; number < end; ++number) {
          for (const TargetRange& range : work.chunk(number)) {
            for (std::int64_t i = 0; i < range.end - range.begin; ++i) {
              seen[{range.record, range.record_element + i}] = 1;
            }
          }
        }
      }
      Unite(done);
    }
    auto together = Elements(WorkList(plan, 40, done));
    for (const auto& [place, count] : seen) together[place] += count;
    ASSERT_EQ(together, all) << round;
  }
}

TEST(WorkListTest, IntervalsAreUnited) {
  std::vector<ElementInterval> intervals = {{7, 9}, {0, 3}, {3, 5}, {1, 2}, {8, 12}};
  Unite(intervals);
  EXPECT_EQ(intervals, (std::vector<ElementInterval>{{0, 5}, {7, 12}}));
}

}  // namespace
}  // namespace ucp
