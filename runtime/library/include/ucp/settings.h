// The settings of a load, and its totals.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ucp/ranks.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

struct LoadSettings {
  // The ranks that load at the same time: each header and each byte is read by one rank, and an error of one rank is
  // thrown on all. Null: this process alone. It must outlive the load.
  Ranks* ranks = nullptr;
  bool verify = false;   // Check the archives' checksums, and copies in the checkpoint against each other: slower.
  unsigned threads = 0;  // From 1 to 256; 0: one for each processor that this rank may use.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;           // The most beyond the memory that is filled.
  std::uint64_t device_memory_bytes = std::uint64_t{512} << 20;  // The same of each GPU whose memory is filled.
  const std::atomic<bool>* cancelled = nullptr;  // Raise it, from any thread, to end a load with kCancelled.
};

struct LoadTotals {
  std::uint64_t bytes_placed = 0;    // In the memory that was filled.
  std::uint64_t bytes_read = 0;      // From storage, by this rank.
  std::uint64_t bytes_received = 0;  // From other ranks.
  std::uint64_t bytes_read_by_all = 0;
  std::uint64_t bytes_to_devices = 0;  // That crossed the bus to a GPU.
  std::uint64_t bytes_from_gpus = 0;   // Of bytes_received: straight from other ranks' GPUs to this one's.
  std::string why_by_hosts;            // Why there are none, where ranks with GPUs have bytes for one another.
  bool is_as_stored = false;           // Nothing had to be converted: the checkpoint has it as it was asked for.
  double seconds = 0;
  unsigned threads = 0;
};

}  // namespace v0
}  // namespace ucp
