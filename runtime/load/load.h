// Loading: a plan's records into memory, one reading of each byte for all ranks that want it. The engine
// (runtime/engine/engine.h) runs it, with the memory as its sink (memory_sink.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/engine_options.h"
#include "runtime/engine/engine_report.h"
#include "runtime/gpu/device.h"
#include "runtime/load_plan/load_plan.h"
#include "runtime/storage/choose_io.h"
#include "runtime/storage/file_system.h"

namespace ucp {

// All of a target's record, in memory that the caller owns and in which no other lies: the host's, or that of a device,
// which nobody else uses meanwhile.
struct WantedRecord {
  RecordId record;
  std::span<std::byte> memory;
  const Device* device = nullptr;
};

struct LoadOptions : EngineOptions {
  std::uint64_t device_memory_bytes = std::uint64_t{512} << 20;  // Of each device, beyond the wanted memory.
  double peer_seconds = 300;  // How long the ranks' devices wait for bytes, once all ranks are there to exchange them.
  IoMode io = IoMode::kAuto;  // How large files are read; rank 0's counts.
  bool check_source = false;  // The archives' checksums, and the copies in the source against each other.
};

struct LoadReport {
  std::uint64_t bytes_placed = 0;      // Sizes of the wanted records.
  std::uint64_t bytes_read = 0;        // From storage, by this rank, whatever for.
  std::uint64_t bytes_received = 0;    // From other ranks.
  std::uint64_t bytes_from_peers = 0;  // Of these, straight from other ranks' devices to this one's.
  std::string why_by_hosts;            // Why there are none, where ranks with devices have bytes for one another.
  std::uint64_t bytes_read_by_all = 0;
  std::uint64_t bytes_to_devices = 0;
  std::uint64_t transfers = 0;  // To devices.
  std::uint64_t launches = 0;   // Of kernels that put what arrived in its places, and of fills.
  IoChoice reading;             // Large files, by this rank.
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
