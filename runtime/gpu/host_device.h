// A stand-in for GPUs, for tests: its devices' memory is the host's, and each stream is a thread that carries out its
// calls only some time later, so that a caller that does not wait for it is found out. It can be told to fail, has
// little memory, and knows what is whose: an address outside of allocated memory is an error, as it is on a GPU.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/gpu/device_calls.h"

namespace ucp {

struct HostDeviceOptions {
  int devices = 2;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // Of each.
  std::chrono::microseconds delay{0};                   // Before anything that a stream does; half of it on average.
  bool checks_addresses = true;                         // False: memory of others also counts as a device's.
  std::uint64_t fail_at = 0;                            // The call that fails, of all, counted from 1; 0: none.
  bool flips_a_bit = false;                             // In the first byte of everything that is copied out.
};

// The calls since SetHostDevice().
struct HostDeviceCounts {
  std::uint64_t calls = 0;      // That may fail: all but those that give something back.
  std::uint64_t transfers = 0;  // To devices.
  std::uint64_t transferred_bytes = 0;
  std::uint64_t launches = 0;  // Of moves, gathers and fills.
  std::uint64_t most_memory_bytes = 0;
  std::uint64_t most_pinned_bytes = 0;
  std::int64_t not_given_back = 0;  // Pieces of memory, pins, streams and events.
};

const UcpDeviceCalls& HostDeviceCalls();
// Only while nothing of it is in use.
void SetHostDevice(const HostDeviceOptions& options);
HostDeviceCounts CountsOfHostDevice();

}  // namespace ucp
