#include "runtime/executor/work_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

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
      TargetRange chunk = work.chunk(number);
      ASSERT_LT(chunk.begin, chunk.end);
      ASSERT_LE(static_cast<std::uint64_t>((chunk.end - chunk.begin) * 4), chunk_bytes);
      elements[{chunk.write, chunk.state}] += chunk.end - chunk.begin;
      const Record& record = plan.target.record(chunk.record);
      ++chunks_of_files[record.file.index()];
      std::pair place(record.file, record.begin + static_cast<std::uint64_t>(chunk.record_element) * 4);
      ASSERT_GE(place, last);  // Disjoint ranges in order; a chunk that were given twice would come before `last`.
      last = {record.file, place.second + static_cast<std::uint64_t>(chunk.end - chunk.begin) * 4};
    }
    for (std::size_t w = 0; w < plan.writes.size(); ++w) {
      for (const char* state : {"exp_avg", "fp32"}) {
        EXPECT_EQ((elements[{w, state}]), plan.LocalElements(plan.writes[w]));
      }
    }
    EXPECT_EQ(work.ChunksOfFiles(), chunks_of_files);
  }
}

TEST(WorkListTest, ChunksAreWholeRowsWhereTheyFit) {
  SmallConversion small({{"a", {10, 6}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  WorkList work(small.plan(), 64);  // Two rows of 24 bytes.
  EXPECT_EQ(work.chunks(), 10U);    // Five for each state.
  EXPECT_EQ(work.chunk(1).begin, 12);
}

}  // namespace
}  // namespace ucp
