// Loading: a plan's records into memory, one reading of each byte for all ranks that want it.
//
//   L1  Every source file is what the plan was made from: same size.
//   L2  What no step fills of a wanted record is zero, or ready-made.
//   L3  What several ranks want is read by one of them, and given to the others.
//   L4  Chunk by chunk and over all threads: what is stored as it is wanted is read straight into its place; what is
//       cut smaller than that, added or cast goes through a buffer.
//   L4' What goes to a device is read straight into a slot of a ring instead, and the slot is sent off (to_device.h).
//   L5  No source file was changed meanwhile; and if it was asked for, what was read is what its archive's checksum
//       says, and equal to its copies.
//
// If the source has every wanted record as it is (as_stored.h), each is read as it is stored.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/executor/execute.h"
#include "runtime/gpu/device.h"
#include "runtime/load/load_plan.h"
#include "runtime/storage/choose_means.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {

// All of a target's record, in memory that the caller owns and in which no other lies: the host's, or that of a device,
// which nobody else uses meanwhile.
struct WantedRecord {
  RecordId record;
  std::span<std::byte> memory;
  const Device* device = nullptr;
};

struct LoadOptions {
  unsigned threads = 1;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;           // Of the host, beyond the wanted memory.
  std::uint64_t device_memory_bytes = std::uint64_t{512} << 20;  // Likewise of each device.
  std::uint64_t most_chunk_bytes = std::uint64_t{1} << 21;
  OpenFileShares open_files;
  WantedMeans io = WantedMeans::kAuto;  // How large files are read; rank 0's counts.
  bool check_source = false;            // The archives' checksums, and the copies in the source against each other.
  // Called from any thread, one call at a time, a few times a second and once at the end.
  std::function<void(const ExecutionProgress&)> progress;
  const std::atomic<bool>* cancelled = nullptr;
  // The ranks that load at the same time, each what it wants of the same plan; null: this process alone.
  Communicator* ranks = nullptr;
};

struct LoadReport {
  std::uint64_t bytes_placed = 0;    // Sizes of the wanted records.
  std::uint64_t bytes_read = 0;      // From storage, by this rank, whatever for.
  std::uint64_t bytes_received = 0;  // From other ranks.
  std::uint64_t bytes_read_by_all = 0;
  std::uint64_t bytes_to_devices = 0;
  std::uint64_t transfers = 0;  // To devices.
  std::uint64_t launches = 0;   // Of kernels that put what arrived in its places, and of fills.
  ChosenWay reading;            // Large files, by this rank.
  bool is_as_stored = false;    // Nothing had to be converted (AsStored).
  double seconds = 0;
  unsigned threads = 0;
  std::uint64_t buffer_bytes = 0;
  std::vector<RoundingMismatch> rounding_mismatches;  // By name; if the source was checked.
  std::vector<RankDecision> decisions;                // Likewise.
};

// Fills the memory of `wanted`; no record is wanted twice, and each has its record's size and can be written (kUsage).
// After an error the memory holds anything. Codes: as Execute().
llvm::Expected<LoadReport> Load(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                const LoadOptions& options);

}  // namespace ucp
