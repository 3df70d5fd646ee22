// Loading into the memory of devices: the same plans and the same expectations as load_test.cpp, with the stand-in for
// a GPU, whose streams are late, on purpose.
#include "runtime/load/to_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>

#include "compiler/support/error.h"
#include "runtime/gpu/host_device.h"
#include "runtime/load/load.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/device_records.h"
#include "tests/unit/runtime/load/loaded_records.h"
#include "tests/unit/runtime/load/small_load.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string TextOf(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : ""; }

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  options.device_memory_bytes = std::uint64_t{1} << 20;  // The slots are filled again and again.
  return options;
}

// All records, on one device, on two, and on devices and the host.
void ExpectRight(SmallConversion conversion, const std::string& what) {
  const SmallLoad small(std::move(conversion));
  const Device first(HostDeviceCalls(), 0);
  const Device second(HostDeviceCalls(), 1);
  int round = 0;
  for (const std::vector<const Device*>& devices :
       {std::vector<const Device*>{&first}, {&first, &second}, {&first, nullptr, &second}}) {
    for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {3U, 60U}}) {
      for (std::uint64_t shift : {0U, 2U}) {
        SetHostDevice({.delay = std::chrono::microseconds(50)});
        DeviceRecords loaded(small.load.plan, small.records, devices, shift);
        LoadOptions options = Options(threads, chunk_bytes);
        options.check_source = round++ % 2 == 0;
        llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), options);
        ASSERT_TRUE(static_cast<bool>(report)) << what << ": " << TakeFailure(report.takeError()).message;
        ASSERT_EQ(loaded.Contents(), small.Expected()) << what;
      }
    }
  }
}

TEST(ToDeviceTest, CutsArePutTogether) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 3, .cut_dim = 0, .padding = 2, .dp = 2, .alignment = 4});
  small.Finish();
  ExpectRight(std::move(small), "plain");
}

TEST(ToDeviceTest, WhatIsCastOnTheHost) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}, {"fp32"});
  small.AddSource({.transposed = true});
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .weights = true});
  small.Finish();
  ExpectRight(std::move(small), "cast");
}

TEST(ToDeviceTest, RandomCuts) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 8; ++round) {
    ExpectRight(RandomCuts(random), fmt::format("round {}", round));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ToDeviceTest, ManySmallTensorsAreFewTransfers) {
  std::vector<SmallTensor> tensors;
  for (int i = 0; i < 2000; ++i) tensors.push_back({fmt::format("t{:04}", i), {3, 5}});
  SmallConversion conversion(tensors, {"fp32"});
  conversion.AddSource({});
  conversion.SetTarget({.spread = Spread::kEachTensor});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const Device device(HostDeviceCalls(), 0);
  DeviceRecords loaded(small.load.plan, small.records, {&device}, 0);
  llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), Options(2, 1 << 20));
  ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
  EXPECT_EQ(loaded.Contents(), small.Expected());
  EXPECT_GE(report->bytes_to_devices, 2000U * 15 * 4);
  EXPECT_LE(report->transfers, 6U);
  EXPECT_LE(report->launches, 6U);
}

// A device gets of a real checkpoint the bytes that an ordinary conversion writes.
void ExpectAsConverted(const std::string& fixture, const std::string& target) {
  const ConvertedLoad converted = Convert(fixture, target);
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const Device device(HostDeviceCalls(), 1);
  DeviceRecords loaded(converted.load.plan, converted.records, {&device}, 0);
  llvm::Expected<LoadReport> report = Load(converted.load, RealFileSystem(), loaded.wanted(), Options(2, 1 << 12));
  ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
  EXPECT_TRUE(loaded.Contents() == converted.expected) << fixture << " to " << target;
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
  llvm::Expected<LoadPlan> load = CompileLoad(RealFileSystem(), request, SingleProcess());
  if (!load) ADD_FAILURE() << TakeFailure(load.takeError()).message;
  SetHostDevice({});
  const Device device(HostDeviceCalls(), 0);
  DeviceRecords loaded(load->plan, AllRecords(load->plan), {&device}, 0);
  llvm::Expected<LoadReport> report = Load(*load, RealFileSystem(), loaded.wanted(), Options(1, 1 << 20));
  if (!report) ADD_FAILURE() << TakeFailure(report.takeError()).message;
  return report->bytes_to_devices;
}

// Masters of 16 bits cross the bus as they are, whatever they become behind it; wider ones cross as what they become.
TEST(ToDeviceTest, TheFewestBytesCrossTheBus) {
  const std::uint64_t narrow = BytesOverTheBus("safetensors:dtype=bf16");
  const std::uint64_t wide = BytesOverTheBus("safetensors:dtype=fp32");
  EXPECT_LT(wide, narrow + narrow / 10);
}

SmallConversion CutAnew() {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 3});
  small.Finish();
  return small;
}

TEST(ToDeviceTest, RanksGiveEachOtherWhatTheirDevicesWant) {
  const SmallLoad small(CutAnew());
  SetHostDevice({.delay = std::chrono::microseconds(50)});
  const std::array<Device, 2> devices = {Device(HostDeviceCalls(), 0), Device(HostDeviceCalls(), 1)};
  OnRanks(3, [&](Communicator& ranks) {
    const Device* mine = ranks.rank() == 2 ? nullptr : &devices[static_cast<std::size_t>(ranks.rank())];
    DeviceRecords loaded(small.load.plan, small.records, {mine}, 0);
    LoadOptions options = Options(2, 64);
    options.ranks = &ranks;
    llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), options);
    ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
    EXPECT_EQ(loaded.Contents(), small.Expected());
    EXPECT_GT(report->bytes_received, 0U);
  });
}

// Of three ranks one has a device, whose calls fail one after the other: all ranks end with its sentence.
TEST(ToDeviceTest, OneRanksDeviceIsEveryRanksErrorAndNamed) {
  const SmallLoad small(CutAnew());
  const Device device(HostDeviceCalls(), 0);
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    SetHostDevice({.delay = std::chrono::microseconds(20)});
    std::vector<std::unique_ptr<DeviceRecords>> loaded;
    for (int rank = 0; rank < 3; ++rank) {
      const Device* own = rank == 1 ? &device : nullptr;
      loaded.push_back(std::make_unique<DeviceRecords>(small.load.plan, small.records, std::vector{own}, 0));
    }
    SetHostDevice({.delay = std::chrono::microseconds(20), .fail_at = fail_at});
    const std::int64_t before = CountsOfHostDevice().not_given_back;
    std::vector<std::string> errors(3);
    OnRanks(3, [&](Communicator& ranks) {
      const auto rank = static_cast<std::size_t>(ranks.rank());
      LoadOptions options = Options(2, 64);
      options.ranks = &ranks;
      errors[rank] = TextOf(Load(small.load, RealFileSystem(), loaded[rank]->wanted(), options).takeError());
    });
    EXPECT_EQ(CountsOfHostDevice().not_given_back, before) << fail_at;
    if (errors[0].empty()) {
      EXPECT_THAT(errors, Each(""));
      EXPECT_GT(fail_at, 20U);
      break;
    }
    EXPECT_THAT(errors, Each(AllOf(StartsWith("rank 1 of 3: cuda:0: "), HasSubstr("told to fail")))) << fail_at;
  }
}

// Any call of a device may fail: the error names it, and nothing is left behind.
TEST(ToDeviceTest, AFailingCallIsAnErrorAndLeavesNothing) {
  SmallConversion conversion({{"a", {6, 4}}, {"b", {8}}});
  conversion.AddSource({.dp = 2});
  conversion.SetTarget({.tp = 2, .cut_dim = 0, .padding = 1, .weights = true});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  const Device device(HostDeviceCalls(), 0);
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    SetHostDevice({.delay = std::chrono::microseconds(20)});
    DeviceRecords loaded(small.load.plan, small.records, {&device}, 0);
    SetHostDevice({.delay = std::chrono::microseconds(20), .fail_at = fail_at});
    const std::int64_t before = CountsOfHostDevice().not_given_back;
    llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), Options(2, 64));
    EXPECT_EQ(CountsOfHostDevice().not_given_back, before) << fail_at;
    if (report) {
      EXPECT_GT(fail_at, 30U);
      break;
    }
    EXPECT_THAT(TextOf(report.takeError()), AllOf(StartsWith("cuda:0: "), HasSubstr("told to fail"))) << fail_at;
  }
}

TEST(ToDeviceTest, MemoryBesidesTheTargetIsWhatWasAllowed) {
  SmallConversion conversion({{"a", {600, 400}}, {"b", {800}}});
  conversion.AddSource({});
  conversion.SetTarget({.tp = 2});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  const Device device(HostDeviceCalls(), 0);
  SetHostDevice({});
  DeviceRecords loaded(small.load.plan, small.records, {&device}, 0);
  SetHostDevice({});
  LoadOptions options = Options(2, 1 << 20);
  options.memory_bytes = std::uint64_t{30} << 20;
  options.device_memory_bytes = std::uint64_t{1} << 20;
  llvm::Expected<LoadReport> report = Load(small.load, RealFileSystem(), loaded.wanted(), options);
  ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
  EXPECT_LE(CountsOfHostDevice().most_memory_bytes, loaded.bytes() + options.device_memory_bytes);
  EXPECT_LE(CountsOfHostDevice().most_pinned_bytes, report->buffer_bytes);
  EXPECT_LE(report->buffer_bytes, options.memory_bytes);
  EXPECT_EQ(loaded.Contents(), small.Expected());

  options.device_memory_bytes = 100000;
  EXPECT_THAT(TextOf(Load(small.load, RealFileSystem(), loaded.wanted(), options).takeError()),
              AllOf(HasSubstr("of the device's memory is too little with 2 threads"), HasSubstr("device_memory")));
  SetHostDevice({.memory_bytes = loaded.bytes() + 100000});
  options.device_memory_bytes = std::uint64_t{1} << 20;
  EXPECT_THAT(TextOf(Load(small.load, RealFileSystem(), loaded.wanted(), options).takeError()),
              AllOf(StartsWith("cuda:0: "), HasSubstr("out of memory")));
}

}  // namespace
}  // namespace ucp
