// Several ranks that load at the same time, here as threads: what the memory of each must hold comes from
// SmallConversion's slow rules, and what was read is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "compiler/support/error.h"
#include "runtime/load/contents.h"
#include "runtime/load/load.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/loaded_records.h"
#include "tests/unit/runtime/load/small_load.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct RankOutcome {
  LoadReport report;
  std::map<RecordId, std::string> contents;
  std::string error;
};

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes, bool check) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  options.check_source = check;
  return options;
}

// A file of which nothing can be read any more after some reads of all files.
class BrokenFile : public ReadableFile {
 public:
  BrokenFile(std::unique_ptr<ReadableFile> file, std::atomic<int>& good_reads)
      : file_(std::move(file)), good_reads_(good_reads) {}
  const std::string& path() const override { return file_->path(); }
  std::uint64_t bytes() const override { return file_->bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (--good_reads_ < 0) return Fail(ErrorCode::kIo, "the disk is gone");
    return file_->ReadAt(offset, buffer);
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  std::atomic<int>& good_reads_;
};

class BrokenFileSystem : public ForwardingFileSystem {
 public:
  explicit BrokenFileSystem(int good_reads) : ForwardingFileSystem(RealFileSystem()), good_reads_(good_reads) {}
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, RealFileSystem().OpenForReading(path));
    return std::make_unique<BrokenFile>(std::move(file), good_reads_);
  }

 private:
  std::atomic<int> good_reads_;
};

// Rank r loads `records[r]`; rank 1 from `of_rank_1`, if there is one.
std::vector<RankOutcome> LoadOnRanks(const LoadPlan& load, const std::vector<std::vector<RecordId>>& records,
                                     LoadOptions options, FileSystem* of_rank_1 = nullptr) {
  std::vector<RankOutcome> outcomes(records.size());
  OnRanks(static_cast<int>(records.size()), [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    LoadedRecords loaded(load.plan, records[rank]);
    LoadOptions own = options;
    own.ranks = &ranks;
    FileSystem& files = rank == 1 && of_rank_1 != nullptr ? *of_rank_1 : RealFileSystem();
    llvm::Expected<LoadReport> report = Load(load, files, loaded.wanted(), own);
    if (report) {
      outcomes[rank] = {*report, loaded.contents, ""};
    } else {
      outcomes[rank].error = TakeFailure(report.takeError()).message;
    }
  });
  return outcomes;
}

SmallConversion Replicated() {
  SmallConversion small({{"a", {12, 40}}, {"b", {80}}, {"c", {4, 60, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .alignment = 4});
  small.Finish();
  return small;
}

// Also padding inside of them.
std::uint64_t BytesOfShards(const Plan& plan) {
  std::uint64_t bytes = 0;
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  });
  return bytes;
}

TEST(ExchangeTest, L2EachByteIsReadOnceForAllRanks) {
  const SmallLoad small(Replicated());
  const std::vector<RecordId>& all = small.records;
  const auto expected = small.Expected();
  std::uint64_t of_one = 0;
  for (std::size_t ranks : {1U, 2U, 3U, 8U}) {
    for (bool check : {false, true}) {
      const auto outcomes =
          LoadOnRanks(small.load, std::vector<std::vector<RecordId>>(ranks, all), Options(2, 256, check));
      std::uint64_t read = 0;
      std::uint64_t received = 0;
      std::uint64_t most = 0;
      for (const RankOutcome& outcome : outcomes) {
        ASSERT_EQ(outcome.error, "");
        ASSERT_EQ(outcome.contents, expected) << ranks << " ranks";
        read += outcome.report.bytes_read;
        most = std::max(most, outcome.report.bytes_read);
        received += outcome.report.bytes_received;
      }
      if (check) continue;
      if (ranks == 1) of_one = read;
      // A row that is cut between two chunks may be read with what lies between its elements.
      EXPECT_LE(read, of_one + of_one / 20) << ranks << " ranks";
      EXPECT_EQ(outcomes.front().report.bytes_read_by_all, read);
      // Shares are even by what is wanted; how much lies between that and is read with it, differs.
      EXPECT_LE(most, read / ranks * 5 / 4 + 600) << ranks << " ranks";
      EXPECT_EQ(received, (ranks - 1) * BytesOfShards(small.load.plan)) << ranks << " ranks";
    }
  }
}

TEST(ExchangeTest, RanksThatWantDifferentThings) {
  std::mt19937 random(11);
  const SmallLoad small(Replicated());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<RecordId>> records(2 + random() % 4);
    for (std::vector<RecordId>& own : records) {
      for (RecordId record : small.records) {
        if (random() % 2 == 0) own.push_back(record);
      }
    }
    const auto outcomes =
        LoadOnRanks(small.load, records, Options(static_cast<unsigned>(1 + random() % 3), 64U << random() % 4, false));
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      ASSERT_EQ(outcomes[rank].error, "");
      ASSERT_EQ(outcomes[rank].contents, small.Expected(records[rank]));
    }
  }
}

TEST(ExchangeTest, RanksOfARealJob) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot("zero1_dp4");
  std::uint64_t read_by_first = 0;
  for (const char* target : {"deepspeed:dp=2,zero=1", "deepspeed:dp=8,zero=1", "universal"}) {
    request.compile.target = target;
    LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess()));
    const int ranks = load.readers.ranks == 0 ? 3 : load.readers.ranks;
    std::vector<std::vector<RecordId>> records;
    for (int rank = 0; rank < ranks; ++rank) records.push_back(load.RecordsOf(rank));
    const auto outcomes = LoadOnRanks(load, records, Options(1, 1 << 12, false));
    for (int rank = 0; rank < ranks; ++rank) {
      LoadedRecords loaded(load.plan, records[static_cast<std::size_t>(rank)]);
      llvm::cantFail(Load(load, RealFileSystem(), loaded.wanted(), Options(1, 1 << 16, false)));
      ASSERT_EQ(outcomes[static_cast<std::size_t>(rank)].error, "");
      EXPECT_TRUE(outcomes[static_cast<std::size_t>(rank)].contents == loaded.contents) << target << " rank " << rank;
    }
    // However many ranks there are, the same bytes come from storage.
    if (read_by_first == 0) read_by_first = outcomes.front().report.bytes_read_by_all;
    if (load.readers.ranks != 0) {
      EXPECT_EQ(outcomes.front().report.bytes_read_by_all, read_by_first) << target;
    }
  }
}

// Counts what comes to a rank, and the most memory that it gives for that at a time.
class CountingRanks : public Communicator {
 public:
  explicit CountingRanks(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    return ranks_.AllGather(mine);
  }
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    std::uint64_t taken = 0;
    for (const Incoming& one : receiving) taken += one.bytes.size();
    received += taken;
    most = std::max(most, taken);
    return ranks_.Deliver(sending, receiving);
  }
  void AskToStop() override { ranks_.AskToStop(); }
  bool IsAskedToStop() override { return ranks_.IsAskedToStop(); }

  std::uint64_t received = 0;
  std::uint64_t most = 0;

 private:
  Communicator& ranks_;
};

// Two of six ranks want everything, three want half, one wants nothing: what nobody asked for goes to nobody.
TEST(ExchangeTest, NothingIsSentToWhoDoesNotWantIt) {
  const SmallLoad small(Replicated());
  const std::vector<RecordId>& all = small.records;
  const std::vector<RecordId> half(all.begin(), all.begin() + std::ssize(all) / 2);
  const std::vector<std::vector<RecordId>> records = {all, half, {}, half, all, half};
  OnRanks(6, [&](Communicator& ranks) {
    CountingRanks counting(ranks);
    LoadedRecords loaded(small.load.plan, records[static_cast<std::size_t>(ranks.rank())]);
    LoadOptions options = Options(1, 256, false);
    options.ranks = &counting;
    const LoadReport report = llvm::cantFail(Load(small.load, RealFileSystem(), loaded.wanted(), options));
    EXPECT_EQ(counting.received, report.bytes_received);
    std::uint64_t wanted = 0;
    for (const auto& [record, content] : loaded.contents) wanted += content.size();
    EXPECT_LE(counting.received, wanted);
    if (ranks.rank() == 2) {
      EXPECT_EQ(report.bytes_read, 0U);
    }
    EXPECT_EQ(loaded.contents, small.Expected(records[static_cast<std::size_t>(ranks.rank())]));
  });
}

// As much as is left for it, and not more for more ranks.
TEST(ExchangeTest, WhatIsOnItsWayIsWithinTheMemoryForAnyNumberOfRanks) {
  const SmallLoad small(OneLargeTensor());
  const std::vector<RecordId>& all = small.records;
  const auto expected = small.Expected();
  for (int size : {2, 5, 20}) {
    LoadOptions options = Options(1, 1 << 16, false);
    options.memory_bytes = std::uint64_t{24} << 20;  // All but a few megabytes are for the program itself.
    OnRanks(size, [&](Communicator& ranks) {
      CountingRanks counting(ranks);
      LoadedRecords loaded(small.load.plan, all);
      LoadOptions own = options;
      own.ranks = &counting;
      const LoadReport report = llvm::cantFail(Load(small.load, RealFileSystem(), loaded.wanted(), own));
      EXPECT_TRUE(loaded.contents == expected) << ranks.rank();
      EXPECT_LE(report.buffer_bytes, std::uint64_t{4} << 20);
      EXPECT_LE(counting.most, std::uint64_t{1} << 20);
      EXPECT_GT(report.bytes_received, std::uint64_t{4} << 20);
    });
  }
}

// Ends in the middle of an exchange, without a word.
class LeavingRanks : public CountingRanks {
 public:
  LeavingRanks(Communicator& ranks, int deliveries) : CountingRanks(ranks), left_(deliveries) {}
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    if (left_ < 0) return Fail(ErrorCode::kIo, "left");
    return CountingRanks::AllGather(mine);
  }
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    return left_-- > 0 ? CountingRanks::Deliver(sending, receiving) : Fail(ErrorCode::kIo, "left");
  }

 private:
  int left_;
};

TEST(ExchangeTest, ARankThatIsGoneIsNamedByAllOthers) {
  const SmallLoad small(OneLargeTensor());
  const std::vector<RecordId>& all = small.records;
  for (int deliveries : {0, 1, 3}) {
    std::vector<std::string> errors(3);
    OnRanks(3, [&](Communicator& ranks) {
      CountingRanks stays(ranks);
      LeavingRanks leaves(ranks, deliveries);
      LoadedRecords loaded(small.load.plan, all);
      LoadOptions options = Options(1, 1 << 16, false);
      options.memory_bytes = std::uint64_t{24} << 20;
      options.ranks = ranks.rank() == 1 ? &leaves : &stays;
      llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), options);
      ASSERT_FALSE(static_cast<bool>(report));
      errors[static_cast<std::size_t>(ranks.rank())] = TakeFailure(report.takeError()).message;
    });
    // A rank that waits for one that has left because of it gets an error that names that one.
    EXPECT_THAT(errors[0], ::testing::MatchesRegex("rank [12] of 3 is gone"));
    EXPECT_THAT(errors[2], ::testing::MatchesRegex("rank [01] of 3 is gone"));
    EXPECT_TRUE(errors[0].starts_with("rank 1") || errors[2].starts_with("rank 1"));
  }
}

TEST(ExchangeTest, RanksThatReadAloneBeginWithDifferentTensors) {
  std::vector<SmallTensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back({fmt::format("t{}", i), {8, 4}});
  SmallConversion small(tensors);
  small.AddSource({.tp = 1, .cut_dim = 0, .dp = 1});
  small.SetTarget({.tp = 4, .cut_dim = 0, .dp = 1});
  small.Finish();
  // Each tensor-parallel rank's records are in the order of the ranks.
  std::vector<std::size_t> first;
  const std::vector<RecordId> all = AllRecords(small.plan());
  RanksOfRecords wanted_by(all.size());
  for (RecordId record : all) wanted_by[record.index()] = {static_cast<int>(record.index() * 4 / all.size())};
  for (int rank = 0; rank < 4; ++rank) {
    const auto contents = FindContents(small.plan(), wanted_by, rank, 4);
    ASSERT_EQ(contents.size(), 1U);
    first.push_back(small.plan().writes[contents.front().contents.front().range.write].first_tensor().index());
  }
  EXPECT_THAT(first, ::testing::ElementsAre(0, 2, 4, 6));
}

TEST(ExchangeTest, AJobOfAnotherSizeIsRefused) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot("zero1_dp4");
  request.compile.target = "deepspeed:dp=4,zero=2";
  std::vector<std::string> errors(3);
  OnRanks(3, [&](Communicator& ranks) {
    auto load = CompileLoad(RealFileSystem(), request, ranks);
    errors[static_cast<std::size_t>(ranks.rank())] = load ? "" : TakeFailure(load.takeError()).message;
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("is a job of 4 ranks, and 3 load"))));
}

// The sentence says what was given, and what it names is enough: what is on its way between ranks is within it.
TEST(ExchangeTest, TooLittleMemoryIsRefusedWithANumberThatWouldDo) {
  const SmallLoad small(Replicated());
  const std::vector<RecordId>& all = small.records;
  LoadOptions options = Options(2, 256, false);
  options.memory_bytes = 16;
  const std::string error = LoadOnRanks(small.load, {all, all, all}, options).back().error;
  EXPECT_THAT(error, HasSubstr("16 B of memory is too little"));
  const std::size_t number = error.find('(') + 1;
  options.memory_bytes = std::stoull(error.substr(number));
  for (const RankOutcome& outcome : LoadOnRanks(small.load, {all, all, all}, options)) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.contents, small.Expected());
  }
  --options.memory_bytes;
  EXPECT_THAT(LoadOnRanks(small.load, {all, all, all}, options).back().error, HasSubstr("of memory is too little"));
}

// Rank 1 cannot read after its first few reads; the others can.
TEST(ExchangeTest, OneRanksErrorIsEverybodysAndNamesIt) {
  const SmallLoad small(Replicated());
  const std::vector<RecordId>& all = small.records;
  for (int good_reads : {0, 1, 3}) {
    BrokenFileSystem broken(good_reads);
    std::vector<std::string> errors;
    for (const RankOutcome& outcome : LoadOnRanks(small.load, {all, all, all}, Options(2, 256, false), &broken)) {
      errors.push_back(outcome.error);
    }
    EXPECT_THAT(errors, Each(AllOf(StartsWith("rank 1 of 3: "), HasSubstr("the disk is gone")))) << good_reads;
  }
}

}  // namespace
}  // namespace ucp
