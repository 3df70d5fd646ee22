#include "tests/unit/runtime/gpu/devices.h"

#include <cstring>
#include <random>

#include "compiler/support/error.h"
#include "runtime/gpu/open_device.h"

namespace ucp::testing {

std::string TextOf(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : ""; }

std::vector<std::byte> RandomBytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void PutIn(const Device& device, std::span<std::byte> memory, std::span<const std::byte> bytes) {
  const PinnedMemory pinned = Must(PinnedMemory::Make(device, bytes.size()));
  DeviceStream stream = Must(DeviceStream::Make(device));
  const DeviceEvent done = Must(DeviceEvent::Make(device));
  std::memcpy(pinned.bytes().data(), bytes.data(), bytes.size());
  ASSERT_SUCCESS(stream.CopyIn(memory.data(), pinned.bytes()));
  ASSERT_SUCCESS(stream.Record(done));
  ASSERT_SUCCESS(done.Wait());
}

std::vector<std::byte> TakeOut(const Device& device, std::span<const std::byte> memory) {
  const PinnedMemory pinned = Must(PinnedMemory::Make(device, memory.size()));
  DeviceStream stream = Must(DeviceStream::Make(device));
  const DeviceEvent done = Must(DeviceEvent::Make(device));
  llvm::cantFail(stream.CopyOut(pinned.bytes(), memory.data()));
  llvm::cantFail(stream.Record(done));
  EXPECT_EQ(TextOf(done.Wait()), "");
  return {pinned.bytes().begin(), pinned.bytes().end()};
}

void EachDevice::SetUp() {
  if (GetParam() == "StandIn") {
    SetHostDevice({.delay = std::chrono::microseconds(300)});
    device_ = std::make_unique<Device>(HostDeviceCalls(), 1);
    return;
  }
  llvm::Expected<std::unique_ptr<Device>> device = OpenDevice("cuda");
  if (!device) GTEST_SKIP() << TakeFailure(device.takeError()).message;
  device_ = std::move(*device);
}

}  // namespace ucp::testing
