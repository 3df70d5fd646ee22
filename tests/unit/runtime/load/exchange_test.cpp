// Several ranks that load at the same time, here as threads: what the memory of each must hold comes from
// SmallConversion's slow rules, and what was read is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "compiler/support/error.h"
#include "runtime/load/load.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/formats/testing/checkpoint_copy.h"
#include "tests/unit/runtime/formats/testing/counting_file_system.h"
#include "tests/unit/runtime/formats/testing/fixtures.h"
#include "tests/unit/runtime/load/loaded_records.h"

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

class BrokenFileSystem : public testing::CountingFileSystem {
 public:
  explicit BrokenFileSystem(int good_reads) : good_reads_(good_reads) {}
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
      outcomes[rank].error = Describe(report.takeError()).message;
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

LoadPlan PlanOf(SmallConversion& small, const std::string& source) {
  return {small.plan(), ReadByAll(small.plan().target.files.size()), source};
}

// Padding inside of them, too.
std::uint64_t BytesOfShards(const Plan& plan) {
  std::uint64_t bytes = 0;
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  });
  return bytes;
}

TEST(ExchangeTest, L3EachByteIsReadOnceForAllRanks) {
  SmallConversion small = Replicated();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const std::vector<RecordId> all = AllRecords(small.plan());
  const auto expected = RecordsOfFiles(small.plan(), all, small.ExpectedFiles());
  std::uint64_t of_one = 0;
  for (std::size_t ranks : {1U, 2U, 3U, 8U}) {
    for (bool check : {false, true}) {
      const auto outcomes = LoadOnRanks(load, std::vector<std::vector<RecordId>>(ranks, all), Options(2, 256, check));
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
      EXPECT_LE(most, read / ranks + 600) << ranks << " ranks";
      EXPECT_EQ(received, (ranks - 1) * BytesOfShards(small.plan())) << ranks << " ranks";
    }
  }
}

TEST(ExchangeTest, RanksThatWantDifferentThings) {
  std::mt19937 random(11);
  SmallConversion small = Replicated();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<RecordId>> records(2 + random() % 4);
    for (std::vector<RecordId>& own : records) {
      for (RecordId record : AllRecords(small.plan())) {
        if (random() % 2 == 0) own.push_back(record);
      }
    }
    const auto outcomes =
        LoadOnRanks(load, records, Options(static_cast<unsigned>(1 + random() % 3), 64U << random() % 4, false));
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      ASSERT_EQ(outcomes[rank].error, "");
      ASSERT_EQ(outcomes[rank].contents, RecordsOfFiles(small.plan(), records[rank], small.ExpectedFiles()));
    }
  }
}

TEST(ExchangeTest, RanksOfARealJob) {
  CompileRequest request;
  request.source.path = testing::FixtureRoot("zero1_dp4");
  std::uint64_t read_by_first = 0;
  for (const char* target : {"deepspeed:dp=2,zero=1", "deepspeed:dp=8,zero=1", "universal"}) {
    request.target = target;
    Compilation alone;
    LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess(), alone));
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

TEST(ExchangeTest, HeadersAreReadOnceAJob) {
  CompileRequest request;
  request.source.path = testing::FixtureRoot("zero1_dp4");
  request.target = "deepspeed:dp=4,zero=2";
  testing::CountingFileSystem alone;
  Compilation compilation;
  llvm::cantFail(CompileLoad(alone, request, SingleProcess(), compilation));
  testing::CountingFileSystem of_all;
  OnRanks(4, [&](Communicator& ranks) {
    Compilation own;
    const LoadPlan load = llvm::cantFail(CompileLoad(of_all, request, ranks, own));
    EXPECT_EQ(load.readers.ranks, 4);
    EXPECT_FALSE(load.RecordsOf(ranks.rank()).empty());
  });
  EXPECT_GT(alone.bytes_read(), 0U);
  EXPECT_EQ(of_all.bytes_read(), alone.bytes_read());
}

TEST(ExchangeTest, AJobOfAnotherSizeIsRefused) {
  CompileRequest request;
  request.source.path = testing::FixtureRoot("zero1_dp4");
  request.target = "deepspeed:dp=4,zero=2";
  std::vector<std::string> errors(3);
  OnRanks(3, [&](Communicator& ranks) {
    Compilation compilation;
    auto load = CompileLoad(RealFileSystem(), request, ranks, compilation);
    errors[static_cast<std::size_t>(ranks.rank())] = load ? "" : Describe(load.takeError()).message;
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("is a job of 4 ranks, and 3 load"))));
}

// The sentence says what was given, and what it names is enough: what is on its way between ranks is within it.
TEST(ExchangeTest, TooLittleMemoryIsRefusedWithANumberThatWouldDo) {
  SmallConversion small = Replicated();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const std::vector<RecordId> all = AllRecords(small.plan());
  LoadOptions options = Options(2, 256, false);
  options.memory_bytes = 16;
  const std::string error = LoadOnRanks(load, {all, all, all}, options).back().error;
  EXPECT_THAT(error, HasSubstr("16 B of memory is too little"));
  const std::size_t number = error.find('(') + 1;
  options.memory_bytes = std::stoull(error.substr(number));
  for (const RankOutcome& outcome : LoadOnRanks(load, {all, all, all}, options)) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.contents, RecordsOfFiles(small.plan(), all, small.ExpectedFiles()));
  }
  --options.memory_bytes;
  EXPECT_THAT(LoadOnRanks(load, {all, all, all}, options).back().error, HasSubstr("of memory is too little"));
}

// Rank 1 cannot read after its first few reads; the others can.
TEST(ExchangeTest, OneRanksErrorIsEverybodysAndNamesIt) {
  SmallConversion small = Replicated();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const std::vector<RecordId> all = AllRecords(small.plan());
  for (int good_reads : {0, 1, 3}) {
    BrokenFileSystem broken(good_reads);
    std::vector<std::string> errors;
    for (const RankOutcome& outcome : LoadOnRanks(load, {all, all, all}, Options(2, 256, false), &broken)) {
      errors.push_back(outcome.error);
    }
    EXPECT_THAT(errors, Each(AllOf(StartsWith("rank 1 of 3: "), HasSubstr("the disk is gone")))) << good_reads;
  }
}

}  // namespace
}  // namespace ucp
