// Loads into a GPU's memory, on the stand-ins for the plugins of CUDA and NCCL, to which memory of the host is a GPU's.
// They are late on purpose, so a missing wait gives wrong bytes. The truth is a load into memory of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/unit/runtime/library/thrown.h"
#include "ucp/load.h"
#include "ucp/load_into.h"
#ifdef UCP_HAS_MPI
#include "ucp/mpi.h"
#endif

namespace ucp {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// By part.
std::vector<Bytes> Filled(ShardLoad& load, const std::string& device, LoadTotals& totals) {
  std::vector<Bytes> memory;
  for (std::uint64_t bytes : load.block_bytes()) memory.emplace_back(bytes, std::byte{0xff});
  const std::vector<std::span<std::byte>> blocks(memory.begin(), memory.end());
  totals = load.Fill(blocks, device);
  std::vector<Bytes> parts;
  for (const ShardPart& part : load.parts()) {
    const std::span<std::byte> bytes = load.BytesOf(part);
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return parts;
}

// A tensor of the fixture, and memory for it.
struct Target {
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::string device;
  std::vector<float> numbers;
};

std::vector<Target> Targets(const std::string& device) {
  return {{"blocks.0.up.bias", {50}, device, std::vector<float>(50)},
          {"blocks.0.norm.weight", {33}, "", std::vector<float>(33)},
          {"blocks.0.up.weight", {50, 33}, device, std::vector<float>(1650)}};
}

LoadTotals FillTargets(std::vector<Target>& targets, Ranks* ranks) {
  std::vector<TensorToFill> wanted;
  for (Target& target : targets) {
    wanted.push_back({.tensor = target.tensor,
                      .shape = target.shape,
                      .memory = std::as_writable_bytes(std::span(target.numbers)),
                      .device = target.device});
  }
  return LoadInto(Fixture("zero1_dp4"), wanted, {.ranks = ranks}, /*all_tensors=*/false).totals;
}

class LibraryDeviceTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("UCP_HOST_DEVICE", "checks=0,delay=300", 1); }
};

TEST_F(LibraryDeviceTest, BlocksOfADevice) {
  ShardLoad load(Fixture("zero1_dp4"), "deepspeed:dp=3,zero=1", {.rank = 1},
                 {.memory_bytes = std::uint64_t{64} << 20, .device_memory_bytes = std::uint64_t{4} << 20});
  LoadTotals of_host;
  LoadTotals of_device;
  const std::vector<Bytes> expected = Filled(load, "", of_host);
  EXPECT_EQ(Filled(load, "cuda:1", of_device), expected);
  EXPECT_EQ(of_host.bytes_to_devices, 0u);
  EXPECT_GE(of_device.bytes_to_devices, of_device.bytes_placed);
  EXPECT_EQ(of_device.bytes_placed, of_host.bytes_placed);
  EXPECT_EQ(Filled(load, "cpu", of_host), expected);
}

TEST_F(LibraryDeviceTest, TensorsOfADeviceAndOfTheHost) {
  std::vector<Target> of_host = Targets("");
  std::vector<Target> of_device = Targets("cuda:0");
  EXPECT_EQ(FillTargets(of_host, nullptr).bytes_to_devices, 0u);
  EXPECT_GE(FillTargets(of_device, nullptr).bytes_to_devices, sizeof(float) * (50 + 1650));
  for (std::size_t number = 0; number < of_host.size(); ++number) {
    EXPECT_EQ(of_device[number].numbers, of_host[number].numbers) << of_host[number].tensor;
  }
}

TEST_F(LibraryDeviceTest, DevicesThatAreNotThere) {
  ShardLoad load(Fixture("zero1_dp4"), "universal");
  std::string sentence;
  LoadTotals totals;
  EXPECT_EQ(KindOf([&] { Filled(load, "cuda:7", totals); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "`cuda:7`: this process sees 2 GPUs, counted from 0");
  std::vector<Target> targets = Targets("xpu");
  EXPECT_EQ(KindOf([&] { FillTargets(targets, nullptr); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "`xpu` is not a device that can be loaded into; those are cpu, cuda and cuda:N");
  ::setenv("UCP_HOST_DEVICE", "devices=0", 1);
  EXPECT_EQ(KindOf([&] { Filled(load, "cuda:0", totals); }, sentence), ErrorKind::kUnsupported);
  EXPECT_EQ(sentence, "`cuda:0`: this process sees no GPU");
}

#ifdef UCP_HAS_MPI
// mpirun starts it: each rank has a GPU.
TEST_F(LibraryDeviceTest, OfMpi) {
  MPI_Init(nullptr, nullptr);
  {
    MpiRanks ranks;
    const std::string device = "cuda:" + std::to_string(ranks.rank());
    ShardLoad load(Fixture("zero1_dp4"), "universal", {}, {.ranks = &ranks});
    LoadTotals totals;
    const std::vector<Bytes> expected = Filled(load, "", totals);
    EXPECT_EQ(Filled(load, device, totals), expected);
    EXPECT_EQ(totals.bytes_from_gpus, totals.bytes_received);
    EXPECT_GT(totals.bytes_from_gpus, 0u);
    EXPECT_LT(totals.bytes_to_devices, totals.bytes_placed / 10 * 7);
    EXPECT_EQ(totals.why_by_hosts, "");

    std::vector<Target> targets = Targets(device);
    targets[1].device = ranks.rank() == 0 ? "cuda" : device;  // One GPU by two names.
    totals = FillTargets(targets, &ranks);
    EXPECT_EQ(totals.why_by_hosts, "");
    EXPECT_EQ(totals.bytes_from_gpus, totals.bytes_received);

    EXPECT_EQ(Filled(load, ranks.rank() == 0 ? "" : device, totals), expected);
    EXPECT_EQ(totals.bytes_from_gpus, 0u);
    EXPECT_THAT(totals.why_by_hosts, HasSubstr(ranks.rank() == 0 ? "" : "rank 0 loads into no GPU"));

    std::string sentence;
    EXPECT_EQ(KindOf([&] { Filled(load, ranks.rank() == 0 ? "cuda:0" : "cuda:9", totals); }, sentence),
              ErrorKind::kUsage);
    EXPECT_THAT(sentence, HasSubstr("rank 1"));
    EXPECT_THAT(sentence, HasSubstr("`cuda:9`"));
  }
  MPI_Finalize();
}
#endif

}  // namespace
}  // namespace ucp
