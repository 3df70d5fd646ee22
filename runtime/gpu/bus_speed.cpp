#include "runtime/gpu/bus_speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = std::size_t{32} << 20;
constexpr double kLeastSeconds = 0.5;
constexpr int kMostPasses = 1000;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

llvm::Expected<BusSpeed> MeasureBus(const Device& device, std::span<std::byte> memory, BusDirection direction) {
  UCP_ASSIGN_OR_RETURN(const PinnedMemory pinned, PinnedMemory::Make(device, std::min(kBlockBytes, memory.size())));
  std::memset(pinned.bytes().data(), 1, pinned.bytes().size());
  UCP_ASSIGN_OR_RETURN(const DeviceEvent done, DeviceEvent::Make(device));
  UCP_ASSIGN_OR_RETURN(DeviceStream stream, DeviceStream::Make(device));
  auto pass = [&]() -> llvm::Error {
    for (std::size_t begin = 0; begin < memory.size(); begin += kBlockBytes) {
      const std::size_t bytes = std::min(kBlockBytes, memory.size() - begin);
      UCP_RETURN_IF_ERROR(direction == BusDirection::kIn
                              ? stream.CopyIn(memory.data() + begin, pinned.bytes().first(bytes))
                              : stream.CopyOut(pinned.bytes().first(bytes), memory.data() + begin));
    }
    UCP_RETURN_IF_ERROR(stream.Record(done));
    return done.Wait();
  };
  UCP_RETURN_IF_ERROR(pass());  // The first pass is slow.
  BusSpeed speed;
  const Clock::time_point start = Clock::now();
  for (int passes = 0; passes < kMostPasses && speed.seconds < kLeastSeconds; ++passes) {
    UCP_RETURN_IF_ERROR(pass());
    speed.bytes += memory.size();
    speed.seconds = SecondsSince(start);
  }
  return speed;
}

}  // namespace ucp
