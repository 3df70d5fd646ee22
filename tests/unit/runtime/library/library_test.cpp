// The library against itself: parts against wholes, one way of loading against the other. That
// the numbers are those of the running engine is for tests/python/test_library.py to say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "tests/unit/runtime/library/job_of_threads.h"
#include "tests/unit/runtime/library/thrown.h"
#include "ucp/convert.h"
#include "ucp/load.h"
#include "ucp/load_into.h"

namespace ucp {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using StateName = std::pair<std::string, std::string>;

Bytes Copied(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// All of each state of a checkpoint.
std::map<StateName, Bytes> Whole(const LoadSource& source) {
  ShardLoad load(source, "universal");
  load.Fill();
  std::map<StateName, Bytes> states;
  for (const ShardPart& part : load.parts()) {
    EXPECT_TRUE(part.is_all());
    states[{part.tensor, part.state}] = Copied(load.BytesOf(part));
  }
  return states;
}

// Whether these are the bytes of this part of the whole.
bool IsPartOf(const std::map<StateName, Bytes>& whole, const ShardPart& part, std::span<const std::byte> bytes) {
  auto found = whole.find({part.tensor, part.state});
  if (found == whole.end() || bytes.size() != part.bytes()) return false;
  const std::size_t begin = static_cast<std::size_t>(part.begin) * part.item_bytes;
  return begin + bytes.size() <= found->second.size() &&
         std::memcmp(found->second.data() + begin, bytes.data(), bytes.size()) == 0;
}

TEST(LibraryTest, PartsOfAllRanksAreTheWhole) {
  const LoadSource source = Fixture("zero1_dp4");
  const std::map<StateName, Bytes> whole = Whole(source);
  std::map<StateName, std::uint64_t> loaded;
  for (int rank = 0; rank < 3; ++rank) {
    ShardLoad load(source, "deepspeed:dp=3,zero=1", {.rank = rank});
    EXPECT_EQ(load.ranks_of_job(), 3);
    const LoadTotals totals = load.Fill();
    EXPECT_GT(totals.bytes_placed, 0u);
    for (const ShardPart& part : load.parts()) {
      if (part.state == "weight") continue;  // Every rank has all of it.
      EXPECT_TRUE(IsPartOf(whole, part, load.BytesOf(part))) << part.tensor << " " << part.state << " of " << rank;
      loaded[{part.tensor, part.state}] += part.bytes();
    }
  }
  EXPECT_FALSE(loaded.empty());
  for (const auto& [name, bytes] : loaded) EXPECT_EQ(bytes, whole.at(name).size()) << name.first;
}

TEST(LibraryTest, NothingIsConvertedForTheCheckpointsOwnTopology) {
  for (const auto& [to, is_own] : {std::pair("deepspeed:dp=4,zero=1", true), {"deepspeed:dp=3,zero=1", false}}) {
    ShardLoad load(Fixture("zero1_dp4"), to, {.rank = 1});
    const LoadTotals totals = load.Fill();
    EXPECT_EQ(totals.is_as_stored, is_own) << to;
    // Masters are not read once more for the weights.
    EXPECT_EQ(totals.bytes_read <= totals.bytes_placed, is_own) << to;
  }
}

TEST(LibraryTest, TheCallersMemoryIsFilled) {
  const LoadSource source = Fixture("zero1_dp4");
  const std::map<StateName, Bytes> whole = Whole(source);
  ShardLoad load(source, "deepspeed:dp=2,zero=1", {.rank = 1}, {.verify = true, .threads = 2});
  std::vector<Bytes> own;
  std::vector<std::span<std::byte>> blocks;
  for (std::uint64_t bytes : load.block_bytes()) own.emplace_back(bytes, std::byte{0xff});
  for (Bytes& block : own) blocks.emplace_back(block);
  load.Fill(blocks);
  for (const ShardPart& part : load.parts()) {
    if (part.state == "weight") continue;
    const auto bytes = std::span(own[part.block]).subspan(part.offset, part.bytes());
    EXPECT_TRUE(IsPartOf(whole, part, bytes)) << part.tensor << " " << part.state;
    EXPECT_EQ(load.BytesOf(part).data(), bytes.data());
  }
  std::string sentence;
  blocks.front() = blocks.front().first(blocks.front().size() - 1);
  EXPECT_EQ(KindOf([&] { load.Fill(blocks); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "block 0 has " + std::to_string(load.block_bytes()[0]) + " bytes, and the memory for it " +
                          std::to_string(blocks.front().size()));
  EXPECT_EQ(KindOf([&] { load.Fill(std::span(blocks).first(1)); }, sentence), ErrorKind::kUsage);
}

// Into its own memory and into the caller's, each more than once; BytesOf() is where it was filled last.
TEST(LibraryTest, ALoadMayBeFilledAgain) {
  const LoadSource source = Fixture("zero1_dp4");
  const std::map<StateName, Bytes> whole = Whole(source);
  ShardLoad load(source, "deepspeed:dp=2,zero=1", {.rank = 1, .states = {"fp32"}});
  std::vector<Bytes> memory;
  for (std::uint64_t bytes : load.block_bytes()) memory.emplace_back(bytes);
  const std::vector<std::span<std::byte>> blocks(memory.begin(), memory.end());
  const std::byte* own = nullptr;
  for (bool is_own : {true, true, false, false, true}) {
    const LoadTotals totals = is_own ? load.Fill() : load.Fill(blocks);
    EXPECT_GT(totals.bytes_read, 0u);
    for (const ShardPart& part : load.parts()) {
      const std::span<std::byte> bytes = load.BytesOf(part);
      EXPECT_TRUE(IsPartOf(whole, part, bytes)) << part.tensor;
      std::fill(bytes.begin(), bytes.end(), std::byte{0xff});  // The next one has to fill it anew.
    }
    const ShardPart& first = load.parts().at(0);
    if (own == nullptr) own = load.BytesOf(first).data();
    EXPECT_EQ(load.BytesOf(first).data(), is_own ? own : blocks[first.block].data() + first.offset);
  }
}

TEST(LibraryTest, OnlyWhatIsChosen) {
  const LoadSource source = Fixture("zero1_dp2");
  ShardLoad all(source, "universal");
  ShardLoad some(source, "universal", {.tensors = {"*.bias", "head.*"}, .states = {"fp32"}});
  EXPECT_EQ(some.parts().size() + some.not_chosen().size(), all.parts().size());
  EXPECT_LT(some.Fill().bytes_placed, all.Fill().bytes_placed);
  const std::map<StateName, Bytes> whole = Whole(source);
  for (const ShardPart& part : some.parts()) {
    EXPECT_EQ(part.state, "fp32");
    EXPECT_TRUE(IsPartOf(whole, part, some.BytesOf(part)));
  }
}

TEST(LibraryTest, ShardsOfTensorParallelRanks) {
  LoadSource source = Fixture("llama_pp2_tp2_dp2");
  source.spec = "megatron_deepspeed_llama";
  const std::string name = "3.mlp.dense_4h_to_h.weight";  // Cut by columns.
  ShardLoad whole(source, "universal", {.tensors = {name}, .states = {"fp32"}});
  whole.Fill();
  const std::span<const std::byte> rows = whole.BytesOf(whole.parts().at(0));
  for (int rank = 0; rank < 2; ++rank) {
    ShardLoad load(source, "deepspeed:pp=1,tp=2,dp=1,zero=1", {.rank = rank, .tensors = {name}, .states = {"fp32"}});
    load.Fill();
    ASSERT_EQ(load.parts().size(), 1u);
    const ShardPart& part = load.parts()[0];
    EXPECT_EQ(part.coordinate.at("tp"), rank);
    const auto columns = static_cast<std::size_t>(part.shape[1]) * part.item_bytes;
    for (std::size_t row = 0; row < static_cast<std::size_t>(part.shape[0]); ++row) {
      const auto expected = rows.subspan((2 * row + static_cast<std::size_t>(rank)) * columns, columns);
      EXPECT_EQ(Copied(load.BytesOf(part).subspan(row * columns, columns)), Copied(expected)) << row;
    }
  }
}

TEST(LibraryTest, RanksOfAJobReadEachByteOnce) {
  const LoadSource source = Fixture("zero1_dp4");
  const std::map<StateName, Bytes> whole = Whole(source);
  ShardLoad alone(source, "deepspeed:dp=1,zero=1");
  const std::uint64_t read_alone = alone.Fill().bytes_read;
  std::mutex mutex;
  std::vector<LoadTotals> totals;
  RunJob(2, [&](Ranks& ranks) {
    ShardLoad load(source, "deepspeed:dp=2,zero=1", {}, {.ranks = &ranks, .threads = 1});
    const LoadTotals mine = load.Fill();
    std::lock_guard lock(mutex);
    totals.push_back(mine);
    for (const ShardPart& part : load.parts()) {
      if (part.state == "weight") continue;
      EXPECT_TRUE(IsPartOf(whole, part, load.BytesOf(part))) << part.tensor;
    }
  });
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].bytes_read + totals[1].bytes_read, totals[0].bytes_read_by_all);
  EXPECT_EQ(totals[0].bytes_read_by_all, read_alone);
  EXPECT_GT(totals[0].bytes_received, 0u);
}

TEST(LibraryTest, WhatIsWrongOnOneRankIsThrownByAll) {
  std::vector<std::string> sentences;
  auto on_ranks = [&](const std::function<void(Ranks&)>& work) { sentences = ThrownOnRanks(2, work); };
  on_ranks([](Ranks& ranks) {
    ShardLoad load(Fixture(ranks.rank() == 0 ? "zero1_dp2" : "zero1_dp4"), "universal", {}, {.ranks = &ranks});
  });
  EXPECT_THAT(sentences, testing::Each(HasSubstr("; all ranks load the same")));
  on_ranks([](Ranks& ranks) {
    ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks, .threads = ranks.rank() == 0 ? 1u : 300u});
  });
  EXPECT_THAT(sentences, testing::Each("rank 1 of 2: threads is a number from 1 to 256, or 0 for all processors, not "
                                       "300"));
  on_ranks([](Ranks& ranks) {
    ShardLoad load(Fixture("zero1_dp2"), "universal", {.tensors = {ranks.rank() == 0 ? "*" : "nowhere.*"}},
                   {.ranks = &ranks});
  });
  EXPECT_THAT(sentences, testing::Each("rank 1 of 2: rank 1 has no tensor whose name fits `nowhere.*`"));
  on_ranks([](Ranks& ranks) { ShardLoad load(Fixture("zero1_dp2"), "deepspeed:dp=3", {}, {.ranks = &ranks}); });
  EXPECT_THAT(sentences, testing::Each(HasSubstr("is a job of 3 ranks, and 2 load")));
}

class BrokenRanks : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::vector<std::string> AllGather(const std::string&) override { throw std::runtime_error("rank 1 is gone"); }
};

TEST(LibraryTest, WhatTheCallersRanksThrowIsThrown) {
  BrokenRanks ranks;
  std::string sentence;
  EXPECT_EQ(KindOf([&] { ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks}); }, sentence),
            ErrorKind::kIo);
  EXPECT_EQ(sentence, "rank 1 is gone");
}

TEST(LibraryTest, RequestsThatMakeNoSense) {
  const LoadSource source = Fixture("zero1_dp2");
  std::string sentence;
  EXPECT_EQ(KindOf([&] { ShardLoad load(source, "deepspeed:dp=3"); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "`deepspeed:dp=3` is a job of 3 ranks; say whose part is to be loaded");
  EXPECT_EQ(KindOf([&] { ShardLoad load(source, "deepspeed:dp=3", {.rank = 3}); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "rank 3 is asked for, and `deepspeed:dp=3` is a job of 3 ranks, counted from 0");
  EXPECT_EQ(KindOf([&] { ShardLoad load(source, "universal", {.tensors = {"[a"}}); }, sentence), ErrorKind::kUsage);
  EXPECT_THAT(sentence, HasSubstr("`[a` is not a valid pattern"));
  EXPECT_EQ(KindOf([&] { InspectAsJson({.path = "/nowhere"}); }, sentence), ErrorKind::kIo);
  EXPECT_EQ(sentence, "`/nowhere` does not exist");
  LoadSource wrong = Fixture("gpt_pp2_tp2_dp2");
  wrong.spec = "megatron_deepspeed_gpt";
  wrong.sets = {"layers=7"};
  EXPECT_EQ(KindOf([&] { ShardLoad load(wrong, "universal"); }, sentence), ErrorKind::kSpec);
  EXPECT_THAT(sentence, HasSubstr("\n"));  // With the diagnostics.
  std::atomic<bool> cancelled = true;
  ShardLoad load(source, "universal", {}, {.cancelled = &cancelled});
  EXPECT_EQ(KindOf([&] { load.Fill(); }, sentence), ErrorKind::kCancelled);
}

class LibraryFolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Tests run side by side.
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("ucp_library_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(LibraryFolderTest, ConvertsAndVerifies) {
  const std::string out = folder_ / "out";
  std::mutex mutex;
  WorkProgress last;
  ConvertSettings settings;
  settings.threads = 2;
  settings.progress = [&](const WorkProgress& now) {
    std::lock_guard lock(mutex);
    EXPECT_GE(now.bytes_done, last.bytes_done);
    last = now;
  };
  const ConvertTotals totals = Convert(Fixture("zero1_dp2"), out, "universal", settings);
  EXPECT_GT(last.bytes_total, 0U);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  EXPECT_GT(totals.bytes_written, last.bytes_total);
  EXPECT_FALSE(totals.was_complete);
  std::string sentence;
  EXPECT_EQ(KindOf([&] { Convert(Fixture("zero1_dp2"), out, "universal"); }, sentence), ErrorKind::kUsage);
  EXPECT_THAT(sentence, HasSubstr("exists; name another folder, or pass force to replace it"));
  EXPECT_THAT(Verify({.path = out}).differences, testing::IsEmpty());
  VerifySettings same;
  same.same = Fixture("zero1_dp2").path;
  same.by_elements = true;
  EXPECT_THAT(Verify({.path = out}, same).differences, testing::IsEmpty());
  same.same = Fixture("zero1_dp4").path;  // Another run.
  EXPECT_THAT(Verify({.path = out}, same).differences, testing::Not(testing::IsEmpty()));
}

TEST_F(LibraryFolderTest, ACancelledConversionLeavesNothing) {
  std::atomic<bool> cancelled = true;
  ConvertSettings settings;
  settings.cancelled = &cancelled;
  std::string sentence;
  EXPECT_EQ(KindOf([&] { Convert(Fixture("zero1_dp2"), folder_ / "out", "universal", settings); }, sentence),
            ErrorKind::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST(LibraryTest, InspectionIsThePrograms) {
  const std::string json = InspectAsJson(Fixture("zero1_dp2"), "*.0.up.bias");
  EXPECT_THAT(json, HasSubstr("\"format\":\"deepspeed\""));
  EXPECT_THAT(json, HasSubstr("\"name\":\"blocks.0.up.bias\""));
  EXPECT_THAT(json, testing::Not(HasSubstr("blocks.0.down.bias")));
}

// Two ranks hold every other stretch of the rows of a matrix, and both all of a bias.
TEST(LibraryTest, TensorsThatAJobHas) {
  const LoadSource source = Fixture("zero1_dp4");
  const std::map<StateName, Bytes> whole = Whole(source);
  const Bytes& matrix = whole.at({"blocks.0.up.weight", "exp_avg"});  // 50 x 33
  const Bytes& bias = whole.at({"blocks.0.up.bias", "fp32"});         // 50
  constexpr std::size_t kRow = 33 * sizeof(float);
  ASSERT_EQ(matrix.size(), 50 * kRow);
  RunJob(2, [&](Ranks& ranks) {
    Bytes rows(25 * kRow);
    Bytes all(50 * sizeof(float));
    const std::vector<HeldSpan> mine =
        ranks.rank() == 0 ? std::vector<HeldSpan>{{0, 10}, {35, 50}} : std::vector<HeldSpan>{{10, 35}};
    const std::vector<TensorToFill> places = {
        {.tensor = "blocks.0.up.weight",
         .state = "exp_avg",
         .shape = {50, 33},
         .holds = {mine, {{0, 33}}},
         .memory = rows},
        {.tensor = "blocks.0.up.bias", .shape = {50}, .memory = all},
    };
    const FillOutcome outcome = LoadInto(source, places, {.ranks = &ranks, .threads = 1}, false);
    EXPECT_TRUE(outcome.step.has_value());
    EXPECT_THAT(outcome.not_loaded.at("blocks.0.up.bias"), testing::ElementsAre("exp_avg", "exp_avg_sq"));
    Bytes expected;
    for (const HeldSpan& span : mine) {
      expected.insert(expected.end(), matrix.begin() + span.begin * static_cast<std::ptrdiff_t>(kRow),
                      matrix.begin() + span.end * static_cast<std::ptrdiff_t>(kRow));
    }
    EXPECT_TRUE(rows == expected) << ranks.rank();
    EXPECT_TRUE(all == bias) << ranks.rank();
  });
}

TEST(LibraryTest, TensorsThatDoNotFit) {
  const LoadSource source = Fixture("zero1_dp2");
  Bytes memory(50 * sizeof(float));
  auto refused = [&](const TensorToFill& place, bool all_tensors = false) {
    std::string sentence;
    KindOf([&] { LoadInto(source, std::span(&place, 1), {}, all_tensors); }, sentence);
    return sentence;
  };
  const TensorToFill bias = {.tensor = "blocks.0.up.bias", .shape = {50}, .memory = memory};
  TensorToFill place = bias;
  place.memory = place.memory.first(8);
  EXPECT_EQ(refused(place), "what is held of `weight` of tensor `blocks.0.up.bias` has 200 bytes, and its memory 8");
  place = bias;
  place.dtype = "float31";
  EXPECT_EQ(refused(place),
            "tensor `blocks.0.up.bias` has numbers of the unknown kind `float31`; kinds are named as PyTorch's");
  place = bias;
  place.shape = {25, 2};
  EXPECT_THAT(refused(place), HasSubstr("blocks.0.up.bias"));
  EXPECT_THAT(refused(bias, true), HasSubstr("no rank has a place for it"));
}

}  // namespace
}  // namespace ucp
