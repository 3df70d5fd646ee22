// Weights that are not the roundings of the masters that are written (E3 of execute.h).
#include "runtime/engine/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/executor/execute.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ExecutionReport ReportOf(SmallConversion& small, const ScratchFolder& folder, unsigned threads) {
  std::filesystem::remove_all(folder.Path("target"));
  std::filesystem::create_directory(folder.Path("target"));
  ExecutionOptions options;
  options.threads = threads;
  options.most_chunk_bytes = 16;
  return llvm::cantFail(Execute(small.plan(), folder.Path("source"), folder.Path("target"), RealFileSystem(), options));
}

TEST(ComparisonTest, WeightsThatAreNotTheirMastersRoundingAreCountedAndNamed) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({.dp = 2});
  small.AddSource({}, ReadRole::kCheckRounding, "weight_");
  small.AddSource({}, ReadRole::kCheckRounding, "copy_");
  small.SetTarget({});
  small.Finish();
  auto change = [&](const char* file, std::size_t element) {
    small.source_contents()[file][19 + (2 + element) * 2 + 1] ^= 0x40;
  };
  for (std::size_t element : {7U, 9U, 23U, 24U}) change("weight_tp0_dp0", element);
  for (std::size_t element = 8; element < 24; ++element) change("copy_tp0_dp0", element);
  for (Record& record : small.plan().source.records) record.crc32.reset();
  ScratchFolder folder;
  small.WriteSource(folder.Path("source"));
  for (unsigned threads : {1U, 2U, 7U}) {
    const ExecutionReport report = ReportOf(small, folder, threads);
    ASSERT_EQ(report.rounding_mismatches.size(), 2U);
    EXPECT_EQ(report.rounding_mismatches[0].tensor, "a");
    EXPECT_EQ(report.rounding_mismatches[0].elements, 3U + 16U);
    EXPECT_EQ(report.rounding_mismatches[0].worst.elements, 16U);
    EXPECT_EQ(report.rounding_mismatches[0].worst.of, 24U);
    EXPECT_THAT(report.rounding_mismatches[0].worst.first, AllOf(HasSubstr("element [2, 0] is"), HasSubstr("/copy_")));
    EXPECT_THAT(report.rounding_mismatches[0].first, AllOf(HasSubstr("element [1, 3] is"), HasSubstr("8.008")));
    EXPECT_EQ(report.rounding_mismatches[1].elements, 1U);
    EXPECT_THAT(report.rounding_mismatches[1].first, HasSubstr("element [0] is"));
  }
  EXPECT_EQ(FilesUnder(folder.Path("target")), small.ExpectedFiles());
}

// As where each expert of a rank has a file: of a shard that lies in two, the first is sound and the second another's.
TEST(ComparisonTest, WeightsOfAShardAreCountedForEachOfItsFiles) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({});
  small.AddSource({.dp = 2}, ReadRole::kCheckRounding, "weight_");
  small.SetTarget({});
  small.Finish();
  std::string& second = small.source_contents()["weight_tp0_dp1"];
  for (std::size_t element = 0; element < 8; ++element) second[19 + element * 2 + 1] ^= 0x40;
  for (Record& record : small.plan().source.records) record.crc32.reset();
  ScratchFolder folder;
  small.WriteSource(folder.Path("source"));
  const ExecutionReport report = ReportOf(small, folder, 2);
  ASSERT_EQ(report.rounding_mismatches.size(), 1U);
  EXPECT_EQ(report.rounding_mismatches[0].tensor, "a");
  EXPECT_EQ(report.rounding_mismatches[0].elements, 8U);
  EXPECT_EQ(report.rounding_mismatches[0].worst.elements, 8U);
  EXPECT_EQ(report.rounding_mismatches[0].worst.of, 8U);
}

}  // namespace
}  // namespace ucp
