// How fast bytes get to a device and back when nothing else is done: the ceiling of a load.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/gpu/device.h"

namespace ucp {

enum class BusDirection { kIn, kOut };

struct BusSpeed {
  std::uint64_t bytes = 0;
  double seconds = 0;
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Copies between pinned memory of the host and `memory`, the device's, for half a second at least and as often as all
// of it takes; `memory` holds anything afterwards.
llvm::Expected<BusSpeed> MeasureBus(const Device& device, std::span<std::byte> memory, BusDirection direction);

}  // namespace ucp
