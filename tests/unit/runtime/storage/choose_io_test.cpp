#include "runtime/storage/choose_io.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/runtime/storage/failing_files.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

enum class Slow { kThroughThePageCache, kPastIt };

// The real file system, of which one way takes its time. Calls past the page cache do not come through here; but
// to go there a file that is read is asked for its path, and one that is written is opened a second time and then
// synced.
class SlowFiles : public ForwardingFileSystem {
 public:
  explicit SlowFiles(Slow slow) : ForwardingFileSystem(RealFileSystem()), slow_(slow) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(auto file, files().OpenForReading(path));
    return std::make_unique<Reading>(slow_, std::move(file));
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(auto file, files().OpenForWriting(path));
    const bool is_past = opened_++ == 1;
    return std::make_unique<Writing>(is_past == (slow_ == Slow::kPastIt), std::move(file));
  }

 private:
  static void TakeTime() { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }

  struct Reading : ReadableFile {
    Reading(Slow way, std::unique_ptr<ReadableFile> real) : slow(way), file(std::move(real)) {}
    const std::string& path() const override {
      if (slow == Slow::kPastIt) TakeTime();
      return file->path();
    }
    std::uint64_t bytes() const override { return file->bytes(); }
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      if (slow == Slow::kThroughThePageCache) TakeTime();
      return file->ReadAt(offset, buffer);
    }
    const Slow slow;
    std::unique_ptr<ReadableFile> file;
  };
  struct Writing : WritableFile {
    Writing(bool takes_time, std::unique_ptr<WritableFile> real) : is_slow(takes_time), file(std::move(real)) {}
    llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
      return file->WriteAt(offset, bytes);
    }
    llvm::Error Sync() override {
      if (is_slow) TakeTime();
      return file->Sync();
    }
    llvm::Error Close() override { return file->Close(); }
    const bool is_slow;
    std::unique_ptr<WritableFile> file;
  };

  const Slow slow_;
  int opened_ = 0;  // For writing.
};

constexpr std::uint64_t kMany = std::uint64_t{1} << 30;  // Bytes that are to be moved.

TrialOptions Small() {
  TrialOptions options;
  options.threads = 2;
  options.least_bytes = 1;
  options.piece_bytes = 256 << 10;
  options.stretch_bytes = 512 << 10;
  return options;
}

// Of the page cache.
void Forget(const std::vector<FileToRead>& files) {
  for (const FileToRead& file : files) {
    const Descriptor open = OpenDescriptor(file.path, O_RDONLY);
    EXPECT_EQ(::fsync(open.number()), 0);
    EXPECT_EQ(::posix_fadvise(open.number(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
}

class ChooseIoTest : public testing::Test {
 protected:
  // Some of these have no direct way, or nothing to go past; then both sentences say so and there is nothing to choose.
  static bool IsTried(const IoChoice& way) { return way.buffered_bytes_per_second > 0; }

  // Bytes that were just written are in the page cache.
  std::vector<FileToRead> WrittenSource() {
    std::vector<FileToRead> files;
    for (const char* name : {"a", "b", "c"}) {
      files.push_back({folder_.Path(name), std::uint64_t{3} << 20});
      WriteTestFile(files.back().path, std::string(files.back().bytes, name[0]));
    }
    return files;
  }

  std::vector<FileToRead> Source() {
    std::vector<FileToRead> files = WrittenSource();
    Forget(files);
    return files;
  }

  ScratchFolder folder_;
};

TEST_F(ChooseIoTest, WhatIsSlowThroughThePageCacheGoesPastIt) {
  SlowFiles files(Slow::kThroughThePageCache);
  const IoChoice reading = ChooseReading(files, Source(), kMany, Small());
  if (!IsTried(reading)) GTEST_SKIP() << reading.reason;
  EXPECT_TRUE(reading.directly) << reading.reason;
  EXPECT_THAT(reading.reason, HasSubstr("/s past the page cache and "));
  const IoChoice writing = llvm::cantFail(ChooseWriting(files, folder_.path(), kMany, Small()));
  EXPECT_TRUE(writing.directly) << writing.reason;
  EXPECT_EQ(std::filesystem::exists(folder_.Path(".ucp-trial")), false);
}

TEST_F(ChooseIoTest, WhatIsSlowPastThePageCacheStaysInIt) {
  SlowFiles files(Slow::kPastIt);
  const IoChoice reading = ChooseReading(files, Source(), kMany, Small());
  if (!IsTried(reading)) GTEST_SKIP() << reading.reason;
  EXPECT_FALSE(reading.directly) << reading.reason;
  const IoChoice writing = llvm::cantFail(ChooseWriting(files, folder_.path(), kMany, Small()));
  EXPECT_TRUE(IsTried(writing)) << writing.reason;
  EXPECT_FALSE(writing.directly) << writing.reason;
}

TEST_F(ChooseIoTest, WhereNoTrialPaysThereIsNone) {
  TrialOptions options = Small();
  options.least_bytes = 1 << 30;
  const IoChoice reading = ChooseReading(RealFileSystem(), Source(), 1 << 20, options);
  EXPECT_FALSE(reading.directly || IsTried(reading));
  EXPECT_EQ(reading.reason, "1.05 MB are too few for a trial to pay");
  const IoChoice writing = llvm::cantFail(ChooseWriting(RealFileSystem(), folder_.path(), 1 << 20, options));
  EXPECT_EQ(writing.reason, "1.05 MB are too few for a trial to pay");
  options.stretch_bytes = 4 << 20;
  EXPECT_EQ(ChooseReading(RealFileSystem(), Source(), kMany, options).reason, "they are small");
}

TEST_F(ChooseIoTest, WhatLiesInMemoryHasNothingToGoPast) {
  const std::string path = "/dev/shm/ucp_choose_means_test_" + std::to_string(getpid());
  WriteTestFile(path, std::string(9 << 20, 'a'));
  const IoChoice reading = ChooseReading(RealFileSystem(), {{path, 9 << 20}}, kMany, Small());
  std::filesystem::remove(path);
  EXPECT_EQ(reading.reason, "they are in memory");
}

TEST_F(ChooseIoTest, WhatThePageCacheHasIsReadFromThere) {
  SlowFiles files(Slow::kThroughThePageCache);
  std::vector<FileToRead> source = Source();
  if (const IoChoice way = ChooseReading(files, source, kMany, Small()); !IsTried(way)) GTEST_SKIP() << way.reason;
  (void)WrittenSource();
  EXPECT_EQ(ChooseReading(files, source, kMany, Small()).reason, "the system has them in memory already");
  Forget({source.back()});  // One of three.
  EXPECT_TRUE(IsTried(ChooseReading(files, source, kMany, Small())));
}

// How long a stretch is decides what is seen of reading ahead; and what is tried is a part of what is to be read.
TEST_F(ChooseIoTest, StretchesAreReadWholeAndOnce) {
  struct Counting : ForwardingFileSystem {
    Counting() : ForwardingFileSystem(RealFileSystem()) {}
    struct Reading : ReadableFile {
      Reading(Counting& all, std::unique_ptr<ReadableFile> real) : counting(all), file(std::move(real)) {}
      const std::string& path() const override { return file->path(); }
      std::uint64_t bytes() const override { return file->bytes(); }
      llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
        const std::lock_guard lock(counting.mutex);
        EXPECT_TRUE(counting.pieces.emplace(file->path(), offset).second) << file->path() << " at " << offset;
        counting.bytes += buffer.size();
        return file->ReadAt(offset, buffer);
      }
      Counting& counting;
      std::unique_ptr<ReadableFile> file;
    };
    llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
      UCP_ASSIGN_OR_RETURN(auto file, files().OpenForReading(path));
      return std::make_unique<Reading>(*this, std::move(file));
    }
    std::mutex mutex;
    std::set<std::pair<std::string, std::uint64_t>> pieces;  // Through the page cache.
    std::uint64_t bytes = 0;
  };
  TrialOptions options = Small();
  options.seconds = 1000;
  for (const std::uint64_t rounds : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{4}}) {
    Counting files;
    const std::uint64_t stretches = std::uint64_t{2} * rounds;  // A thread's in each round.
    const IoChoice way = ChooseReading(files, Source(), std::uint64_t{8} * stretches * options.stretch_bytes, options);
    if (!IsTried(way)) GTEST_SKIP() << way.reason;
    EXPECT_EQ(files.bytes, stretches * options.stretch_bytes);
    std::map<std::string, std::uint64_t> in_file;
    for (const auto& [path, offset] : files.pieces) {
      ++in_file[path];
      const std::uint64_t in_stretch = offset % options.stretch_bytes;
      EXPECT_TRUE(files.pieces.count({path, offset - in_stretch + (options.piece_bytes - in_stretch)})) << offset;
    }
    EXPECT_EQ(in_file.size(), rounds == 1 ? 2 : 3) << rounds;  // Spread over all of them.
  }
}

// Whichever call fails, the trial's file is gone or a message names it, and the conversion may go on.
TEST_F(ChooseIoTest, FailureLoop) {
  const std::vector<FileToRead> source = Source();
  if (const IoChoice way = ChooseReading(RealFileSystem(), source, kMany, Small()); !IsTried(way)) {
    GTEST_SKIP() << way.reason;
  }
  int call = 1;
  for (;; ++call) {
    FailingFiles files(call);
    Forget(source);
    const IoChoice reading = ChooseReading(files, source, kMany, Small());
    const bool failed_in_reading = files.has_failed();
    llvm::Expected<IoChoice> writing = ChooseWriting(files, folder_.path(), kMany, Small());
    if (!files.has_failed()) {
      EXPECT_TRUE(IsTried(reading)) << reading.reason;
      EXPECT_TRUE(IsTried(*writing)) << writing->reason;
      break;
    }
    const bool is_left = std::filesystem::exists(folder_.Path(".ucp-trial"));
    EXPECT_EQ(is_left, !writing) << files.failed_call();
    if (!writing) {
      EXPECT_THAT(TakeFailure(writing.takeError()).message, HasSubstr("remove " + folder_.Path(".ucp-trial")));
      files.Heal();
      EXPECT_FALSE(static_cast<bool>(RemoveTrial(files, folder_.path())));
    } else {
      const IoChoice& failed = failed_in_reading ? reading : *writing;
      EXPECT_FALSE(failed.directly || IsTried(failed)) << files.failed_call();
      EXPECT_THAT(failed.reason, HasSubstr("it could not be tried: injected failure: ")) << files.failed_call();
      const IoChoice& other = failed_in_reading ? *writing : reading;
      EXPECT_TRUE(IsTried(other)) << files.failed_call() << ": " << other.reason;
    }
  }
  EXPECT_GT(call, 12);  // Opening, moving and syncing, for each of both.
}

}  // namespace
}  // namespace ucp
