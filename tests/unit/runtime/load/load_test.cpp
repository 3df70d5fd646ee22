// L1 to L5 are those of load.h. What the memory must hold comes from SmallConversion's slow rules, or is what an
// ordinary conversion of a real checkpoint writes.
#include "runtime/load/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/plan/verifier.h"
#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/formats/testing/checkpoint_copy.h"
#include "tests/unit/runtime/formats/testing/fixtures.h"
#include "tests/unit/runtime/load/loaded_records.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  return options;
}

LoadPlan PlanOf(SmallConversion& small, const std::string& source) {
  return {small.plan(), ReadByAll(small.plan().target.files.size()), source};
}

template <typename T>
std::string ErrorOf(llvm::Expected<T> result) {
  return result ? "no error" : Describe(result.takeError()).message;
}

// Whole, and then a random half of the records.
void ExpectRight(SmallConversion& small, const std::string& what) {
  if (llvm::Error error = VerifyPlan(small.plan())) FAIL() << what << ": " << Describe(std::move(error)).message;
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  std::mt19937 random(7);
  std::vector<RecordId> records = AllRecords(small.plan());
  for (int round = 0; round < 2; ++round) {
    for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {1U, 16U}, {3U, 60U}}) {
      LoadedRecords loaded(small.plan(), records);
      LoadOptions options = Options(threads, chunk_bytes);
      options.check_source = round == 0;
      llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), loaded.wanted(), options);
      ASSERT_TRUE(static_cast<bool>(report)) << what << ": " << Describe(report.takeError()).message;
      ASSERT_EQ(loaded.contents, RecordsOfFiles(small.plan(), records, small.ExpectedFiles())) << what;
    }
    std::erase_if(records, [&](RecordId) { return random() % 2 == 0; });
  }
}

TEST(LoadTest, CutsArePutTogetherInMemory) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 3, .cut_dim = 0, .padding = 2, .dp = 2, .alignment = 4});
  small.Finish();
  ExpectRight(small, "plain");
}

TEST(LoadTest, WhatIsCastGoesThroughABuffer) {
  for (bool transposed : {false, true}) {
    SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}, {"fp32"});
    small.AddSource({.transposed = transposed});
    small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .weights = true});
    small.Finish();
    ExpectRight(small, "cast");
  }
}

TEST(LoadTest, RandomCuts) {
  std::mt19937 random(20261121);
  auto one_of = [&](std::vector<std::int64_t> values) { return values[random() % values.size()]; };
  for (int round = 0; round < 60; ++round) {
    SmallConversion small({{"a", {one_of({1, 6, 12}), 4}}, {"b", {one_of({8, 24})}}, {"c", {4, 6, one_of({1, 2, 3})}}});
    auto cut = [&](bool is_target) {
      return SmallCut{.tp = one_of({1, 2}),
                      .cut_dim = one_of({0, 1}),
                      .fused = random() % 2 == 0,
                      .padding = one_of({0, 1}),
                      .dp = one_of({1, 2, 3}),
                      .spread = random() % 2 == 0 ? Spread::kAcrossBuffer : Spread::kEachTensor,
                      .alignment = one_of({1, 4}),
                      .weights = is_target && random() % 3 == 0};
    };
    small.AddSource(cut(false));
    small.SetTarget(cut(true));
    small.Finish();
    ExpectRight(small, fmt::format("round {}", round));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(LoadTest, L1ASourceOfAnotherSizeIsRefused) {
  SmallConversion small({{"a", {6, 4}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  LoadPlan load = PlanOf(small, folder.path() + "/source");
  LoadedRecords loaded(small.plan(), AllRecords(small.plan()));
  ++load.plan.source.files.front().bytes;
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), loaded.wanted(), Options(1, 1 << 20))),
              AllOf(HasSubstr("bytes, and had"), HasSubstr("plan again")));
}

TEST(LoadTest, L5DamageIsFoundWhereItIsAskedFor) {
  SmallConversion small({{"a", {6, 4}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  for (auto& [path, content] : small.source_contents()) content[content.size() / 2] ^= 1;
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  LoadedRecords loaded(small.plan(), AllRecords(small.plan()));
  LoadOptions options = Options(1, 1 << 20);
  EXPECT_EQ(ErrorOf(Load(load, RealFileSystem(), loaded.wanted(), options)), "no error");
  options.check_source = true;
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), loaded.wanted(), options)),
              AllOf(HasSubstr("is damaged"), HasSubstr("tensor `a`")));
}

TEST(LoadTest, MemoryThatDoesNotFitIsRefusedBeforeAnythingIsRead) {
  SmallConversion small({{"a", {6, 4}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  const LoadPlan load = PlanOf(small, "/nowhere");
  LoadedRecords loaded(small.plan(), AllRecords(small.plan()));
  std::vector<WantedRecord> wanted = loaded.wanted();
  wanted.push_back(wanted.front());
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), wanted, Options(1, 1 << 20))), HasSubstr("is wanted twice"));
  wanted = loaded.wanted();
  wanted.front().memory = wanted.front().memory.subspan(1);
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), wanted, Options(1, 1 << 20))),
              HasSubstr(fmt::format("bytes, and its memory {}", wanted.front().memory.size())));
  wanted.front().record = RecordId(999);
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), wanted, Options(1, 1 << 20))), HasSubstr("record 999"));
}

// A real checkpoint, and what the ordinary conversion of it writes.
void ExpectAsConverted(const std::string& fixture, const std::string& target) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot(fixture);
  request.compile.target = target;
  Compilation compilation;
  llvm::Expected<LoadPlan> load = CompileLoad(RealFileSystem(), request, SingleProcess(), compilation);
  ASSERT_TRUE(static_cast<bool>(load)) << fixture << " to " << target << ": " << Describe(load.takeError()).message;
  testing::TemporaryFolder folder;
  llvm::Expected<ExecutionReport> converted =
      Execute(load->plan, load->source_folder, folder.path(), RealFileSystem(), {});
  ASSERT_TRUE(static_cast<bool>(converted)) << Describe(converted.takeError()).message;
  const std::vector<RecordId> records = AllRecords(load->plan);
  LoadedRecords loaded(load->plan, records);
  llvm::Expected<LoadReport> report = Load(*load, RealFileSystem(), loaded.wanted(), Options(2, 1 << 12));
  ASSERT_TRUE(static_cast<bool>(report)) << Describe(report.takeError()).message;
  ASSERT_GT(report->bytes_placed, 0U);
  EXPECT_TRUE(loaded.contents == RecordsOfFiles(load->plan, records, FilesUnder(folder.path())))
      << fixture << " to " << target;
}

TEST(LoadTest, RealCheckpointsAreLoadedAsTheyAreConverted) {
  for (const char* fixture : {"zero1_dp4", "frozen_buffers_zero2", "zero3_frozen_dp4", "bf16_masters_zero2"}) {
    for (const char* target : {"universal", "safetensors", "deepspeed:dp=3,zero=1", "deepspeed:dp=2,zero=3"}) {
      ExpectAsConverted(fixture, target);
    }
  }
}

}  // namespace
}  // namespace ucp
