// Ranks whose devices give each other what several of them want, on stand-ins for GPUs and for NCCL that are late on
// purpose: a missing wait gives wrong bytes. The expected bytes come from SmallConversion's slow rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "compiler/support/error.h"
#include "runtime/gpu/host_device.h"
#include "runtime/load/load.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/device_records.h"
#include "tests/unit/runtime/load/small_load.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  LoadReport report;
  std::map<RecordId, std::string> contents;
  std::string error;
  HostDeviceCounts counts;  // Of all ranks.
};

struct LoadingRanks {
  int ranks = 3;
  std::vector<int> on_host = {};  // Ranks without a device.
  HostDeviceOptions device = {.devices = 8, .delay = std::chrono::microseconds(100)};
  LoadOptions options = {};
  std::uint64_t shift = 0;
  std::map<int, FileSystem*> files = {};  // Of ranks that have no ordinary ones.
};

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes, std::uint64_t device_memory) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  options.device_memory_bytes = device_memory;
  options.peer_seconds = 60;
  return options;
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Each rank wants all records.
std::vector<Outcome> LoadOnRanks(const SmallLoad& small, const LoadingRanks& run) {
  const auto count = static_cast<std::size_t>(run.ranks);
  SetHostDevice({.devices = run.device.devices, .delay = run.device.delay});
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<DeviceRecords>> loaded;
  for (int rank = 0; rank < run.ranks; ++rank) {
    devices.push_back(std::make_unique<Device>(HostDeviceCalls(), rank));
    const bool is_on_host = std::ranges::find(run.on_host, rank) != run.on_host.end();
    const std::vector<const Device*> own = {is_on_host ? nullptr : devices.back().get()};
    loaded.push_back(std::make_unique<DeviceRecords>(small.load.plan, small.records, own, run.shift));
  }
  SetHostDevice(run.device);
  const std::int64_t before = CountsOfHostDevice().not_given_back;
  std::vector<Outcome> outcomes(count);
  OnRanks(run.ranks, [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    LoadOptions options = run.options;
    options.ranks = &ranks;
    const auto files = run.files.find(ranks.rank());
    FileSystem& own = files == run.files.end() ? RealFileSystem() : *files->second;
    llvm::Expected<LoadReport> report = Load(small.load, own, loaded[rank]->wanted(), options);
    if (!report) {
      outcomes[rank].error = TakeFailure(report.takeError()).message;
      return;
    }
    outcomes[rank].report = std::move(*report);
  });
  const HostDeviceCounts counts = CountsOfHostDevice();
  EXPECT_EQ(counts.not_given_back, before);
  SetHostDevice({});
  for (std::size_t rank = 0; rank < count; ++rank) {
    outcomes[rank].contents = loaded[rank]->Contents();
    outcomes[rank].counts = counts;
  }
  return outcomes;
}

std::vector<std::string> ErrorsOf(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> errors;
  for (const Outcome& outcome : outcomes) errors.push_back(outcome.error);
  return errors;
}

std::uint64_t SumOf(const std::vector<Outcome>& outcomes, std::uint64_t LoadReport::* number) {
  std::uint64_t sum = 0;
  for (const Outcome& outcome : outcomes) sum += outcome.report.*number;
  return sum;
}

void ExpectRight(const SmallLoad& small, const std::vector<Outcome>& outcomes, const std::string& what) {
  ASSERT_THAT(ErrorsOf(outcomes), Each("")) << what;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank].contents == small.Expected()) << what << ", rank " << rank;
  }
}

// In many rounds of some 300 KB. The lists of what goes where cross the bus beside them.
TEST(DevicePeersTest, EachByteIsReadOnceAndCrossesTheBusOnce) {
  const SmallLoad small(OneLargeTensor());
  for (int ranks : {2, 3, 4}) {
    const std::vector<Outcome> outcomes = LoadOnRanks(small, {.ranks = ranks, .options = Options(2, kMiB, 2 * kMiB)});
    ExpectRight(small, outcomes, fmt::format("{} ranks", ranks));
    const std::uint64_t all = SumOf(outcomes, &LoadReport::bytes_placed);
    ASSERT_EQ(all % static_cast<std::uint64_t>(ranks), 0U);
    const std::uint64_t once = all / static_cast<std::uint64_t>(ranks);
    EXPECT_GT(once, 2 * kMiB);
    EXPECT_EQ(SumOf(outcomes, &LoadReport::bytes_read), once);
    EXPECT_GE(SumOf(outcomes, &LoadReport::bytes_to_devices), once);
    EXPECT_LE(SumOf(outcomes, &LoadReport::bytes_to_devices), once + once / 50);
    EXPECT_EQ(SumOf(outcomes, &LoadReport::bytes_from_peers), all - once);
    EXPECT_EQ(SumOf(outcomes, &LoadReport::bytes_received), all - once);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.report.why_by_hosts, "");
  }
}

TEST(DevicePeersTest, RandomCuts) {
  std::mt19937 random(20261127);
  for (int round = 0; round < 12; ++round) {
    const SmallLoad small(RandomCuts(random));
    LoadingRanks run{.ranks = 2 + round % 3, .shift = round % 2 == 0 ? 0U : 2U};
    run.options = Options(round % 2 == 0 ? 1 : 2, round % 3 == 0 ? 60U : 1U << 20, 4 * kMiB);
    run.options.check_source = round % 4 == 0;
    ExpectRight(small, LoadOnRanks(small, run), fmt::format("round {}", round));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(DevicePeersTest, TheMemoryOfADeviceIsWhatWasAllowed) {
  const SmallLoad small(OneLargeTensor());
  const std::vector<Outcome> outcomes = LoadOnRanks(small, {.options = Options(2, kMiB, 3 * kMiB)});
  ExpectRight(small, outcomes, "3 MiB");
  const std::uint64_t placed = outcomes[0].report.bytes_placed;
  EXPECT_LE(outcomes[0].counts.most_memory_bytes, placed + 3 * kMiB + 4096);
  EXPECT_GT(outcomes[0].counts.most_memory_bytes, placed + kMiB);
}

// Two slots would hold all that a rank reads.
TEST(DevicePeersTest, SmallPiecesGiveEveryThreadASlot) {
  const SmallLoad small(OneLargeTensor());
  const std::vector<Outcome> outcomes = LoadOnRanks(small, {.options = Options(8, 4096, 96 * kMiB)});
  ExpectRight(small, outcomes, "8 threads");
  for (const Outcome& outcome : outcomes) EXPECT_GE(outcome.report.transfers, 8U);
}

// A rank that cannot take part, for any reason, lets all give each other bytes by the hosts.
TEST(DevicePeersTest, WhereTheDevicesCannotBeJoinedTheHostsGive) {
  const SmallLoad small(OneLargeTensor());
  const testing::TemporaryFolder meetings;
  ::setenv("TMPDIR", meetings.path().c_str(), 1);
  LoadingRanks run{.options = Options(2, kMiB, 4 * kMiB)};
  auto expect_why = [&](const std::string& why) {
    const std::vector<Outcome> outcomes = LoadOnRanks(small, run);
    ExpectRight(small, outcomes, why);
    EXPECT_EQ(SumOf(outcomes, &LoadReport::bytes_from_peers), 0U);
    EXPECT_GT(SumOf(outcomes, &LoadReport::bytes_received), 0U);
    EXPECT_THAT(outcomes[0].report.why_by_hosts, HasSubstr(why));
    EXPECT_TRUE(std::filesystem::is_empty(meetings.path())) << "an id for which nobody came";
  };
  run.on_host = {2};
  expect_why("rank 2 loads into no GPU");
  run.on_host = {};
  run.options.device_memory_bytes = kMiB;
  expect_why("of its GPU's memory left beside its slots, and the exchange takes");
  run.options.device_memory_bytes = 4 * kMiB;
  ::setenv("UCP_STAND_IN_NCCL", "one_gpu", 1);
  expect_why("rank 0 of 3 cannot join the others through NCCL: ncclCommInitRank: invalid usage");
  ::setenv("UCP_STAND_IN_NCCL", "no_p2p", 1);
  expect_why("rank 0 of 3 cannot reach the others through NCCL: ncclSend and ncclRecv: unhandled system error");
  ::unsetenv("UCP_STAND_IN_NCCL");
  ::unsetenv("TMPDIR");
}

// Files of which nothing is read any more after some reads, or the next read is only done after a pause.
class StoppingFile : public ReadableFile {
 public:
  StoppingFile(std::unique_ptr<ReadableFile> file, std::atomic<int>& good_reads, std::chrono::milliseconds pause)
      : file_(std::move(file)), good_reads_(good_reads), pause_(pause) {}
  const std::string& path() const override { return file_->path(); }
  std::uint64_t bytes() const override { return file_->bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (--good_reads_ >= 0) return file_->ReadAt(offset, buffer);
    if (pause_.count() == 0) return Fail(ErrorCode::kIo, "the disk is gone");
    if (good_reads_ == -1) std::this_thread::sleep_for(pause_);
    return file_->ReadAt(offset, buffer);
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  std::atomic<int>& good_reads_;
  const std::chrono::milliseconds pause_;
};

class StoppingFiles : public ForwardingFileSystem {
 public:
  StoppingFiles(int good_reads, std::chrono::milliseconds pause)
      : ForwardingFileSystem(RealFileSystem()), good_reads_(good_reads), pause_(pause) {}
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, ForwardingFileSystem::OpenForReading(path));
    return std::make_unique<StoppingFile>(std::move(file), good_reads_, pause_);
  }

 private:
  std::atomic<int> good_reads_;
  const std::chrono::milliseconds pause_;
};

TEST(DevicePeersTest, WhatOneRankCannotReadIsEveryRanksError) {
  const SmallLoad small(OneLargeTensor());
  for (int good_reads : {0, 1, 5}) {
    StoppingFiles files(good_reads, std::chrono::milliseconds(0));
    const LoadingRanks run{.options = Options(2, kMiB / 8, 2 * kMiB), .files = {{1, &files}}};
    EXPECT_THAT(ErrorsOf(LoadOnRanks(small, run)),
                Each(AllOf(StartsWith("rank 1 of 3: "), HasSubstr("the disk is gone"))))
        << good_reads;
  }
}

// The ranks' devices wait for bytes for less long than the pause takes.
TEST(DevicePeersTest, ARankThatReadsIsWaitedFor) {
  const SmallLoad small(OneLargeTensor());
  StoppingFiles files(3, std::chrono::seconds(7));
  LoadingRanks run{.options = Options(1, kMiB / 8, 4 * kMiB), .files = {{2, &files}}};
  run.options.peer_seconds = 5;
  const std::vector<Outcome> outcomes = LoadOnRanks(small, run);
  ExpectRight(small, outcomes, "a pause");
  EXPECT_GT(SumOf(outcomes, &LoadReport::bytes_from_peers), 0U);
}

// Bytes of rank 1 that never come. The first rank that gives up asks the others to stop.
TEST(DevicePeersTest, BytesThatDoNotComeAreNotWaitedForForEver) {
  const SmallLoad small(OneLargeTensor());
  LoadingRanks run{.options = Options(1, kMiB / 8, 4 * kMiB)};
  run.options.peer_seconds = 0.5;
  ::setenv("UCP_STAND_IN_NCCL", "holds", 1);
  EXPECT_THAT(
      ErrorsOf(LoadOnRanks(small, run)),
      Each(AllOf(HasSubstr(" of 3: its GPU cannot reach those of other ranks through NCCL"), HasSubstr("is aborted"))));
  ::unsetenv("UCP_STAND_IN_NCCL");
}

// NCCL does not notify ranks of the same machine. They have all the time that they want, and still all end.
TEST(DevicePeersTest, AnExchangeThatFailsOnOneRankIsEveryRanksError) {
  const SmallLoad small(OneLargeTensor());
  LoadingRanks run{.options = Options(1, kMiB / 8, 4 * kMiB)};
  run.options.peer_seconds = std::numeric_limits<double>::infinity();
  ::setenv("UCP_STAND_IN_NCCL", "fails", 1);
  EXPECT_THAT(ErrorsOf(LoadOnRanks(small, run)),
              Each("rank 1 of 3: its GPU cannot reach those of other ranks through NCCL: ncclSend and ncclRecv: "
                   "unhandled system error; the communicator of NCCL is aborted"));
  ::unsetenv("UCP_STAND_IN_NCCL");
}

// Any call of any device may fail: all ranks end with one sentence, and nothing is left behind.
TEST(DevicePeersTest, AFailingCallIsEveryRanksError) {
  SmallConversion conversion({{"a", {6, 4}}, {"b", {8}}});
  conversion.AddSource({.dp = 2});
  conversion.SetTarget({.tp = 2, .cut_dim = 0, .padding = 1, .dp = 2});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    LoadingRanks run{.ranks = 2, .options = Options(1, 64, 4 * kMiB)};
    run.device = {.devices = 8, .delay = std::chrono::microseconds(20), .fail_at = fail_at};
    const std::vector<std::string> errors = ErrorsOf(LoadOnRanks(small, run));
    if (errors[0].empty()) {
      EXPECT_THAT(errors, Each(""));
      EXPECT_GT(fail_at, 40U);
      break;
    }
    EXPECT_THAT(errors, Each(AllOf(HasSubstr(": cuda:"), HasSubstr("told to fail")))) << fail_at;
    EXPECT_EQ(errors[0], errors[1]) << fail_at;
  }
}

}  // namespace
}  // namespace ucp
