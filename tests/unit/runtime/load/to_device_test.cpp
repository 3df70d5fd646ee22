// Loading into the memory of devices: the same plans and the same expectations as load_test.cpp, with the stand-in for
// a GPU, whose streams are late, on purpose.
#include "runtime/load/to_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/plan/verifier.h"
#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "runtime/gpu/host_device.h"
#include "runtime/load/load.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/formats/testing/checkpoint_copy.h"
#include "tests/unit/runtime/formats/testing/fixtures.h"
#include "tests/unit/runtime/load/device_records.h"
#include "tests/unit/runtime/load/loaded_records.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string TextOf(llvm::Error error) { return error ? Describe(std::move(error)).message : ""; }

LoadPlan PlanOf(SmallConversion& small, const std::string& source) {
  return {small.plan(), ReadByAll(small.plan().target.files.size()), source};
}

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  options.device_memory_bytes = std::uint64_t{1} << 20;  // The slots are filled again and again.
  return options;
}

// All records, on one device, on two, and on devices and the host.
void ExpectRight(SmallConversion& small, const std::string& what) {
  if (llvm::Error error = VerifyPlan(small.plan())) FAIL() << what << ": " << Describe(std::move(error)).message;
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const std::vector<RecordId> records = AllRecords(small.plan());
  const Device first(HostDeviceCalls(), 0);
  const Device second(HostDeviceCalls(), 1);
  int round = 0;
  for (const std::vector<const Device*>& devices :
       {std::vector<const Device*>{&first}, {&first, &second}, {&first, nullptr, &second}}) {
    for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {3U, 60U}}) {
      for (std::uint64_t shift : {0U, 2U}) {
        SetHostDevice({.delay = std::chrono::microseconds(50)});
        DeviceRecords loaded(small.plan(), records, devices, shift);
        LoadOptions options = Options(threads, chunk_bytes);
        options.check_source = round++ % 2 == 0;
        llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), loaded.wanted(), options);
        ASSERT_TRUE(static_cast<bool>(report)) << what << ": " << Describe(report.takeError()).message;
        ASSERT_EQ(loaded.Contents(), RecordsOfFiles(small.plan(), records, small.ExpectedFiles())) << what;
      }
    }
  }
}

TEST(ToDeviceTest, CutsArePutTogether) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 3, .cut_dim = 0, .padding = 2, .dp = 2, .alignment = 4});
  small.Finish();
  ExpectRight(small, "plain");
}

TEST(ToDeviceTest, WhatIsCastOnTheHost) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}, {"fp32"});
  small.AddSource({.transposed = true});
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .weights = true});
  small.Finish();
  ExpectRight(small, "cast");
}

TEST(ToDeviceTest, RandomCuts) {
  std::mt19937 random(20261122);
  auto one_of = [&](std::vector<std::int64_t> values) { return values[random() % values.size()]; };
  for (int round = 0; round < 8; ++round) {
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

TEST(ToDeviceTest, ManySmallTensorsAreFewTransfers) {
  std::vector<SmallTensor> tensors;
  for (int i = 0; i < 2000; ++i) tensors.push_back({fmt::format("t{:04}", i), {3, 5}});
  SmallConversion small(tensors, {"fp32"});
  small.AddSource({});
  small.SetTarget({.spread = Spread::kEachTensor});
  small.Finish();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const Device device(HostDeviceCalls(), 0);
  const std::vector<RecordId> records = AllRecords(small.plan());
  DeviceRecords loaded(small.plan(), records, {&device}, 0);
  llvm::Expected<LoadReport> report =
      Load(PlanOf(small, folder.path() + "/source"), RealFileSystem(), loaded.wanted(), Options(2, 1 << 20));
  ASSERT_TRUE(static_cast<bool>(report)) << Describe(report.takeError()).message;
  EXPECT_EQ(loaded.Contents(), RecordsOfFiles(small.plan(), records, small.ExpectedFiles()));
  EXPECT_GE(report->bytes_to_devices, 2000U * 15 * 4);
  EXPECT_LE(report->transfers, 6U);
  EXPECT_LE(report->launches, 6U);
}

// What real checkpoints become on a device is what an ordinary conversion of them writes.
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
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const Device device(HostDeviceCalls(), 1);
  const std::vector<RecordId> records = AllRecords(load->plan);
  DeviceRecords loaded(load->plan, records, {&device}, 0);
  llvm::Expected<LoadReport> report = Load(*load, RealFileSystem(), loaded.wanted(), Options(2, 1 << 12));
  ASSERT_TRUE(static_cast<bool>(report)) << Describe(report.takeError()).message;
  EXPECT_TRUE(loaded.Contents() == RecordsOfFiles(load->plan, records, FilesUnder(folder.path())))
      << fixture << " to " << target;
}

TEST(ToDeviceTest, RealCheckpointsAreLoadedAsTheyAreConverted) {
  for (const char* fixture : {"zero1_dp4", "zero3_frozen_dp4", "bf16_masters_zero2"}) {
    for (const char* target : {"universal", "safetensors", "deepspeed:dp=3,zero=1", "deepspeed:dp=2,zero=3"}) {
      ExpectAsConverted(fixture, target);
    }
  }
}

std::uint64_t BytesOverTheBus(const std::string& target) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot("bf16_masters_zero2");
  request.compile.target = target;
  Compilation compilation;
  llvm::Expected<LoadPlan> load = CompileLoad(RealFileSystem(), request, SingleProcess(), compilation);
  if (!load) ADD_FAILURE() << Describe(load.takeError()).message;
  SetHostDevice({});
  const Device device(HostDeviceCalls(), 0);
  DeviceRecords loaded(load->plan, AllRecords(load->plan), {&device}, 0);
  llvm::Expected<LoadReport> report = Load(*load, RealFileSystem(), loaded.wanted(), Options(1, 1 << 20));
  if (!report) ADD_FAILURE() << Describe(report.takeError()).message;
  return report->bytes_to_devices;
}

// Masters of 16 bits cross the bus as they are, whatever they become behind it; wider ones cross as what they become.
TEST(ToDeviceTest, TheFewestBytesCrossTheBus) {
  const std::uint64_t narrow = BytesOverTheBus("safetensors:dtype=bf16");
  const std::uint64_t wide = BytesOverTheBus("safetensors:dtype=fp32");
  EXPECT_LT(wide, narrow + narrow / 10);
}

TEST(ToDeviceTest, RanksGiveEachOtherWhatTheirDevicesWant) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 3});
  small.Finish();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const std::vector<RecordId> records = AllRecords(small.plan());
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const std::vector<Device> devices = [] {
    std::vector<Device> made;
    made.emplace_back(HostDeviceCalls(), 0);
    made.emplace_back(HostDeviceCalls(), 1);
    return made;
  }();
  OnRanks(3, [&](Communicator& ranks) {
    const Device* mine = ranks.rank() == 2 ? nullptr : &devices[static_cast<std::size_t>(ranks.rank())];
    DeviceRecords loaded(small.plan(), records, {mine}, 0);
    LoadOptions options = Options(2, 64);
    options.ranks = &ranks;
    llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), loaded.wanted(), options);
    ASSERT_TRUE(static_cast<bool>(report)) << Describe(report.takeError()).message;
    EXPECT_EQ(loaded.Contents(), RecordsOfFiles(small.plan(), records, small.ExpectedFiles()));
    EXPECT_GT(report->bytes_received, 0U);
  });
}

// Which of a device's calls fails does not matter: it is an error that says which, and nothing is left behind.
TEST(ToDeviceTest, AFailingCallIsAnErrorAndLeavesNothing) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({.dp = 2});
  small.SetTarget({.tp = 2, .cut_dim = 0, .padding = 1, .weights = true});
  small.Finish();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const Device device(HostDeviceCalls(), 0);
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    SetHostDevice({.delay = std::chrono::microseconds(20)});
    DeviceRecords loaded(small.plan(), AllRecords(small.plan()), {&device}, 0);
    SetHostDevice({.delay = std::chrono::microseconds(20), .fail_at = fail_at});
    const std::int64_t before = CountsOfHostDevice().not_given_back;
    llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), loaded.wanted(), Options(2, 64));
    EXPECT_EQ(CountsOfHostDevice().not_given_back, before) << fail_at;
    if (report) {
      EXPECT_GT(fail_at, 30U);
      break;
    }
    EXPECT_THAT(TextOf(report.takeError()), AllOf(StartsWith("cuda:0: "), HasSubstr("told to fail"))) << fail_at;
  }
}

TEST(ToDeviceTest, MemoryBesidesTheTargetIsWhatWasAllowed) {
  SmallConversion small({{"a", {600, 400}}, {"b", {800}}});
  small.AddSource({});
  small.SetTarget({.tp = 2});
  small.Finish();
  testing::TemporaryFolder folder;
  small.WriteSource(folder.path() + "/source");
  const LoadPlan load = PlanOf(small, folder.path() + "/source");
  const Device device(HostDeviceCalls(), 0);
  SetHostDevice({});
  DeviceRecords loaded(small.plan(), AllRecords(small.plan()), {&device}, 0);
  SetHostDevice({});
  LoadOptions options = Options(2, 1 << 20);
  options.memory_bytes = std::uint64_t{30} << 20;
  options.device_memory_bytes = std::uint64_t{1} << 20;
  llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), loaded.wanted(), options);
  ASSERT_TRUE(static_cast<bool>(report)) << Describe(report.takeError()).message;
  EXPECT_LE(CountsOfHostDevice().most_memory_bytes, loaded.bytes() + options.device_memory_bytes);
  EXPECT_LE(CountsOfHostDevice().most_pinned_bytes, report->buffer_bytes);
  EXPECT_LE(report->buffer_bytes, options.memory_bytes);
  EXPECT_EQ(loaded.Contents(), RecordsOfFiles(small.plan(), AllRecords(small.plan()), small.ExpectedFiles()));

  options.device_memory_bytes = 100000;
  EXPECT_THAT(TextOf(Load(load, RealFileSystem(), loaded.wanted(), options).takeError()),
              AllOf(HasSubstr("of the device's memory is too little with 2 threads"), HasSubstr("--device-memory")));
  SetHostDevice({.memory_bytes = loaded.bytes() + 100000});
  options.device_memory_bytes = std::uint64_t{1} << 20;
  EXPECT_THAT(TextOf(Load(load, RealFileSystem(), loaded.wanted(), options).takeError()),
              AllOf(StartsWith("cuda:0: "), HasSubstr("out of memory")));
}

}  // namespace
}  // namespace ucp
