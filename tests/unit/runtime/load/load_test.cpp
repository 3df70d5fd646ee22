// E1 to E5 are those of engine.h. The expected memory comes from SmallConversion's slow rules, or is what an
// ordinary conversion of a real checkpoint writes.
#include "runtime/load/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"
#include "tests/unit/runtime/load/loaded_records.h"
#include "tests/unit/runtime/load/small_load.h"

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

template <typename T>
std::string ErrorOf(llvm::Expected<T> result) {
  return result ? "no error" : TakeFailure(result.takeError()).message;
}

// Whole, and then a random half of the records.
void ExpectRight(SmallConversion conversion, const std::string& what) {
  const SmallLoad small(std::move(conversion));
  std::mt19937 random(7);
  std::vector<RecordId> records = small.records;
  for (int round = 0; round < 2; ++round) {
    for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {1U, 16U}, {3U, 60U}}) {
      LoadedRecords loaded(small.load.plan, records);
      LoadOptions options = Options(threads, chunk_bytes);
      options.check_source = round == 0;
      llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), options);
      ASSERT_TRUE(static_cast<bool>(report)) << what << ": " << TakeFailure(report.takeError()).message;
      ASSERT_EQ(loaded.contents, small.Expected(records)) << what;
    }
    std::erase_if(records, [&](RecordId) { return random() % 2 == 0; });
  }
}

TEST(LoadTest, CutsArePutTogetherInMemory) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 3, .cut_dim = 0, .padding = 2, .dp = 2, .alignment = 4});
  small.Finish();
  ExpectRight(std::move(small), "plain");
}

TEST(LoadTest, WhatIsCastGoesThroughABuffer) {
  for (bool transposed : {false, true}) {
    SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}, {"fp32"});
    small.AddSource({.transposed = transposed});
    small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .weights = true});
    small.Finish();
    ExpectRight(std::move(small), "cast");
  }
}

TEST(LoadTest, RandomCuts) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 60; ++round) {
    ExpectRight(RandomCuts(random), fmt::format("round {}", round));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

SmallConversion OneSmallTensor() {
  SmallConversion small({{"a", {6, 4}}});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  return small;
}

TEST(LoadTest, E1ASourceOfAnotherSizeIsRefused) {
  const SmallLoad small(OneSmallTensor());
  LoadPlan load = small.load;
  LoadedRecords loaded(load.plan, small.records);
  ++load.plan.source.files.front().bytes;
  EXPECT_THAT(ErrorOf(Load(load, RealFileSystem(), loaded.wanted(), Options(1, 1 << 20))),
              AllOf(HasSubstr("bytes, and had"), HasSubstr("plan again")));
}

TEST(LoadTest, E4DamageIsFoundWhereItIsAskedFor) {
  SmallConversion damaged = OneSmallTensor();
  for (auto& [path, content] : damaged.source_contents()) content[content.size() / 2] ^= 1;
  const SmallLoad small(std::move(damaged));
  LoadedRecords loaded(small.load.plan, small.records);
  LoadOptions options = Options(1, 1 << 20);
  EXPECT_EQ(ErrorOf(Load(small.load, RealFileSystem(), loaded.wanted(), options)), "no error");
  options.check_source = true;
  EXPECT_THAT(ErrorOf(Load(small.load, RealFileSystem(), loaded.wanted(), options)),
              AllOf(HasSubstr("is damaged"), HasSubstr("tensor `a`")));
}

TEST(LoadTest, MemoryThatDoesNotFitIsRefusedBeforeAnythingIsRead) {
  const SmallLoad small(OneSmallTensor());
  LoadPlan load = small.load;
  load.source_folder = "/nowhere";
  LoadedRecords loaded(load.plan, small.records);
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

// ZeRO's flat groups hold several tensors in one record.
TEST(LoadTest, ARecordOfSeveralTensorsIsNotNamedForOneOfThem) {
  const ConvertedLoad converted = Convert("zero1_dp4", "deepspeed:dp=2,zero=1");
  const Plan& plan = converted.load.plan;
  std::map<RecordId, std::set<std::string>> tensors;
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    tensors[range.record].insert(plan.tensor(plan.writes[range.write].first_tensor()).logical.name);
  });
  int flat = 0;
  for (const RecordId record : converted.records) {
    const std::set<std::string>& held = tensors[record];
    std::vector<std::byte> memory(plan.target.record(record).bytes + 1);
    const WantedRecord wanted{record, memory};
    const std::string name = held.size() == 1
                                 ? fmt::format("tensor `{}` has", *held.begin())
                                 : fmt::format("record {} of `{}` has", record, plan.target.file(record).path);
    flat += held.size() > 1 ? 1 : 0;
    EXPECT_THAT(ErrorOf(Load(converted.load, RealFileSystem(), std::span(&wanted, 1), Options(1, 1 << 20))),
                HasSubstr(name));
  }
  EXPECT_GT(flat, 0);
}

// A real checkpoint, and what the ordinary conversion of it writes.
void ExpectAsConverted(const std::string& fixture, const std::string& target) {
  const ConvertedLoad converted = Convert(fixture, target);
  LoadedRecords loaded(converted.load.plan, converted.records);
  llvm::Expected<LoadReport> report = Load(converted.load, RealFileSystem(), loaded.wanted(), Options(2, 1 << 12));
  ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
  ASSERT_GT(report->bytes_placed, 0U);
  EXPECT_TRUE(loaded.contents == converted.expected) << fixture << " to " << target;
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
