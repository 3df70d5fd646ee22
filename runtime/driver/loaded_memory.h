// The memory that `ucprun load` fills: one stretch for all records of a rank, of the host or of a device.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/parallel.h"
#include "runtime/gpu/device.h"
#include "runtime/load/load.h"

namespace ucp {

class LoadedMemory {
 public:
  // Every byte of the host's is touched, so that the system has it at hand. `device` may be null; it must outlive this.
  static llvm::Expected<LoadedMemory> Make(const Plan& plan, const std::vector<RecordId>& records, const Device* device,
                                           const ParallelOptions& parallel);

  const std::vector<WantedRecord>& records() const { return records_; }
  std::uint64_t bytes() const { return bytes_; }

  // Returns the best rate that a load can reach, in bytes a second: for a device, the rate of the bus to it; else the
  // rate of reading.
  llvm::Expected<double> Ceiling(const LoadPlan& load, ReadableFileSystem& files, const ParallelOptions& parallel);

 private:
  // Returns how many bytes a second all threads read of the plan's source when they do nothing else: as many bytes as
  // there is memory, into the memory. Twice, and the second time counts, when all that the machine can keep is in its
  // page cache.
  llvm::Expected<double> ReadingRate(const LoadPlan& load, ReadableFileSystem& files, const ParallelOptions& parallel);
  llvm::Error MakeOnHost(const ParallelOptions& parallel);

  const Device* device_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  DeviceMemory on_device_;
  std::vector<WantedRecord> records_;
};

}  // namespace ucp
