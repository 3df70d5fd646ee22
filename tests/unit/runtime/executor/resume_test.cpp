// A run that is stopped and continued is like a run that was never stopped: the files, the digests, and the report
// of differences are the same, whenever it is stopped and whatever threads and chunks each part has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>

#include "compiler/support/error.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/execute.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : small_({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}) {
    small_.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
    small_.AddSource({}, ReadRole::kCheckRounding, "weight_");
    small_.SetTarget({.tp = 2, .dp = 3, .alignment = 4});
    small_.Finish();
    // Wrong roundings, so that there is something to report.
    std::string& weights = small_.source_contents()["weight_tp0_dp0"];
    for (std::size_t byte : {40U, 80U, 120U, 160U}) weights[byte] ^= 0x40;
    for (Record& record : small_.plan().source.records) {
      if (small_.plan().source.files[record.file.index()].path == "weight_tp0_dp0") record.crc32.reset();
    }
    small_.WriteSource(source());
  }

  std::string source() const { return folder_.Path("source"); }
  std::string target() const { return folder_.Path("target"); }

  // A run that is stopped after `chunks` chunks. The progress that it kept last is in `kept_`.
  llvm::Expected<ExecutionReport> Run(unsigned threads, std::uint64_t chunk_bytes, int chunks) {
    ExecutionOptions options;
    options.threads = threads;
    options.most_chunk_bytes = chunk_bytes;
    options.journal_seconds = 0;
    std::atomic<bool> cancelled = false;
    std::atomic<int> left = chunks;
    options.cancelled = &cancelled;
    if (kept_) options.progress_before = {*kept_};
    bool is_first = kept_.has_value();  // The work of earlier runs comes first.
    options.keep = [&](const std::string& progress) {
      kept_ = progress;
      if (!std::exchange(is_first, false) && --left <= 0) cancelled = true;
      return llvm::Error::success();
    };
    if (!kept_) MakeTarget();
    return Execute(small_.plan(), source(), target(), RealFileSystem(), options);
  }

  void MakeTarget() const {
    std::filesystem::remove_all(target());
    std::filesystem::create_directory(target());
  }

  // The same on several ranks, whose journals follow J4 of ranks_folder.h; they are in `journals_`, by rank. It is
  // stopped as one that is interrupted, or, with `fails`, by an error of whichever rank kept the last.
  llvm::Expected<ExecutionReport> RunOn(int ranks, unsigned threads, std::uint64_t chunk_bytes, int keeps, bool fails) {
    std::vector<std::string> before;
    for (const auto& [rank, entry] : journals_) before.push_back(entry);
    if (before.empty()) MakeTarget();
    std::atomic<bool> cancelled = false;
    bool joins = !before.empty();  // The first that is kept is rank 0's, and holds all that is `before`.
    std::mutex mutex;              // Protects it, `keeps` and the journals.
    llvm::Expected<ExecutionReport> result = ExecutionReport();
    OnRanks(ranks, [&](Communicator& communicator) {
      ExecutionOptions options;
      options.threads = threads;
      options.most_chunk_bytes = chunk_bytes;
      options.journal_seconds = 0;
      options.cancelled = &cancelled;
      options.ranks = &communicator;
      options.stretch_border = stretch_border_;
      const int rank = communicator.rank();
      if (rank == 0) options.progress_before = before;
      options.keep = [&, rank](const std::string& progress) -> llvm::Error {
        std::lock_guard lock(mutex);
        if (std::exchange(joins, false)) {
          EXPECT_EQ(rank, 0);
          journals_.clear();
        } else if (--keeps <= 0) {
          if (fails) return Fail(ErrorCode::kIo, "no journal");
          cancelled = true;
        }
        journals_[rank] = progress;
        return llvm::Error::success();
      };
      llvm::Expected<ExecutionReport> report = Execute(small_.plan(), source(), target(), RealFileSystem(), options);
      if (rank == 0) {
        llvm::consumeError(result.takeError());
        result = std::move(report);
      } else {
        llvm::consumeError(report.takeError());
      }
    });
    return result;
  }

  std::string RefusalAfter(int chunks) {
    llvm::Expected<ExecutionReport> report = Run(1, 32, chunks);
    if (report) return "no error";
    FailureText failure = TakeFailure(report.takeError());
    EXPECT_EQ(failure.code, ErrorCode::kUsage);
    return failure.message;
  }

  SmallConversion small_;
  ScratchFolder folder_;
  std::optional<std::string> kept_;
  std::map<int, std::string> journals_;
  std::uint64_t stretch_border_ = kStretchBorder;
};

TEST_F(ResumeTest, StoppedAnywhereAndGoneOnWith) {
  const ExecutionReport whole = llvm::cantFail(Run(1, 64, 1 << 30));
  ASSERT_EQ(whole.rounding_mismatches.size(), 3U);
  std::mt19937 random(20261121);
  int stops = 0;  // How many a round has depends on how the threads are scheduled.
  for (int round = 0; round < 60 || stops < 200; ++round) {
    ASSERT_LT(round, 400) << stops;
    kept_.reset();
    std::optional<ExecutionReport> last;
    std::uint64_t written = 0;
    while (!last) {
      auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
      const auto before = kept_;
      auto report = Run(static_cast<unsigned>(pick(1, 4)), 16U * static_cast<unsigned>(pick(1, 8)), pick(1, 6));
      if (report) {
        last = std::move(*report);
        written = last->bytes_written + last->bytes_done_before;
        const BytesToDo to_do =
            BytesLeft(small_.plan(), {}, before ? std::vector<std::string>{*before} : std::vector<std::string>());
        ASSERT_EQ(to_do.all - to_do.left, last->bytes_done_before);
      } else {
        FailureText failure = TakeFailure(report.takeError());
        ASSERT_EQ(failure.code, ErrorCode::kCancelled) << failure.message;
        ASSERT_NE(kept_, before);
        ++stops;
        // Work that the journal does not vouch for may be lost: bytes behind it, and whole files that were not begun.
      }
    }
    ASSERT_EQ(FilesUnder(target()), small_.ExpectedFiles()) << round;
    ASSERT_EQ(last->file_digests, whole.file_digests);
    ASSERT_EQ(last->digests, whole.digests);
    ASSERT_EQ(last->rounding_mismatches.size(), whole.rounding_mismatches.size());
    for (std::size_t i = 0; i < whole.rounding_mismatches.size(); ++i) {
      ASSERT_EQ(last->rounding_mismatches[i].elements, whole.rounding_mismatches[i].elements);
      ASSERT_EQ(last->rounding_mismatches[i].first, whole.rounding_mismatches[i].first);
    }
    ASSERT_LE(written, whole.bytes_written);
  }
}

// By whole files; by files that several ranks write a part of; and where such a part ends within an element.
class ResumeOnRanksTest : public ResumeTest, public testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(StretchBorders, ResumeOnRanksTest, testing::Values(kStretchBorder, 16, 10));

TEST_P(ResumeOnRanksTest, J4StoppedOnAnyRanksAndGoneOnWithByOthers) {
  stretch_border_ = GetParam();
  const ExecutionReport whole = llvm::cantFail(Run(1, 64, 1 << 30));
  std::mt19937 random(20261122);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int stops = 0;
  int journals = 0;
  for (int round = 0; round < 25 || stops < 40 || journals < 20; ++round) {
    ASSERT_LT(round, 400) << stops << ' ' << journals;
    journals_.clear();
    std::optional<ExecutionReport> last;
    while (!last) {
      const bool fails = pick(0, 1) == 1;
      auto report = RunOn(pick(1, 4), static_cast<unsigned>(pick(1, 2)), 16U * static_cast<unsigned>(pick(1, 8)),
                          pick(1, 12), fails);
      if (report) {
        last = std::move(*report);
      } else {
        FailureText failure = TakeFailure(report.takeError());
        ASSERT_TRUE(failure.code == ErrorCode::kCancelled || (fails && failure.code == ErrorCode::kIo))
            << failure.message;
        ++stops;
        journals += journals_.size() > 1;
      }
    }
    ASSERT_EQ(FilesUnder(target()), small_.ExpectedFiles()) << round;
    ASSERT_EQ(last->file_digests, whole.file_digests) << round;
    ASSERT_EQ(last->digests, whole.digests) << round;
    ASSERT_LE(last->bytes_written + last->bytes_done_before, whole.bytes_written) << round;
    ASSERT_EQ(last->rounding_mismatches.size(), whole.rounding_mismatches.size());
    for (std::size_t i = 0; i < whole.rounding_mismatches.size(); ++i) {
      ASSERT_EQ(last->rounding_mismatches[i].elements, whole.rounding_mismatches[i].elements) << round;
      ASSERT_EQ(last->rounding_mismatches[i].first, whole.rounding_mismatches[i].first) << round;
    }
  }
}

TEST_F(ResumeTest, ADamagedSourceIsFoundThoughItWasReadBefore) {
  const std::string path = source() + "/source_tp0_dp0";
  std::string content = ReadTestFile(path);
  content[30] ^= 1;  // Of the first record, which the first chunks read.
  WriteTestFile(path, content);
  for (int stops = 0;; ++stops) {
    llvm::Expected<ExecutionReport> report = Run(1, 64, 3);
    ASSERT_FALSE(static_cast<bool>(report));
    FailureText failure = TakeFailure(report.takeError());
    if (failure.code == ErrorCode::kCancelled) continue;
    EXPECT_THAT(failure.message, HasSubstr("is damaged"));
    EXPECT_GT(stops, 2);
    break;
  }
}

TEST_F(ResumeTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(TakeFailure(Run(2, 32, 4).takeError()).code, ErrorCode::kCancelled);
  const std::string kept = *kept_;
  for (std::size_t bytes = 0; bytes < kept.size(); ++bytes) {
    kept_ = kept.substr(0, bytes);
    ASSERT_THAT(RefusalAfter(1), HasSubstr("does not fit this plan")) << bytes;
  }
  kept_ = kept + "x";
  EXPECT_THAT(RefusalAfter(1), HasSubstr("does not fit this plan"));
  // Numbers of intervals, records and files that the plan does not have.
  for (std::size_t word = 0; word < kept.size() / 8; ++word) {
    kept_ = kept;
    (*kept_)[word * 8 + 6] = '\x7f';
    llvm::Expected<ExecutionReport> report = Run(1, 32, 1 << 30);
    if (!report) llvm::consumeError(report.takeError());  // A refusal, or a wrong sum that a source's checksum shows.
  }
}

TEST_F(ResumeTest, AFileThatIsGoneIsNamed) {
  EXPECT_EQ(TakeFailure(Run(1, 32, 4).takeError()).code, ErrorCode::kCancelled);
  const std::string path = target() + "/" + small_.plan().target.files.front().path;
  std::filesystem::remove(path);
  EXPECT_THAT(RefusalAfter(1),
              HasSubstr("`" + path + "`, which the interrupted run wrote, is not there as a file of "));
}

TEST_F(ResumeTest, ASourceThatChangedIsNamedWithBothTimes) {
  EXPECT_EQ(TakeFailure(Run(1, 32, 4).takeError()).code, ErrorCode::kCancelled);
  const std::string path = source() + "/source_tp0_dp0";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_THAT(RefusalAfter(1), HasSubstr("`" + path + "` was changed since the interrupted run read it"));
}

}  // namespace
}  // namespace ucp
