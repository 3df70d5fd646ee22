// The way from a device's memory to the host's, for a job's state. Long stretches are copied as they are. Short ones
// and strided ones are gathered on the device first, by one kernel for many of them, and leave in one transfer.
#pragma once

#include <llvm/Support/Error.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/gpu/device.h"

namespace ucp {

// Rows of bytes in a device's memory, of one length and at equal distances. In the host's memory they lie one behind
// the other.
struct DeviceRows {
  const std::byte* from = nullptr;  // The first.
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 1;
  std::int64_t stride = 0;  // From the beginning of a row to that of the next, in bytes.
  std::uint64_t to = 0;     // Where the first goes, in bytes behind the beginning of the host's memory.

  std::uint64_t bytes() const { return row_bytes * rows; }
};

// The calls of the device since an Unloader was made.
struct UnloadCounts {
  std::uint64_t transfers = 0;
  std::uint64_t launches = 0;
  // Where the bus is shared: how long it was in use, and then left alone.
  std::chrono::duration<double> used{0};
  std::chrono::duration<double> rested{0};
};

struct UnloadOptions {
  // Whether the bytes come straight to the host's memory, which pinning makes possible. It takes longer than many
  // copies, so memory that is used once is better left alone: then they come by way of pinned memory of 32 MiB.
  bool pins_host = true;
  unsigned threads = 1;  // That copy from there.
};

class Unloader {
 public:
  static constexpr std::uint64_t kMostGap = 64;

  // Takes 33 MiB of the device's memory, and pins `host`, or as much memory of its own. `host` stays as long as this.
  // Fails with kIo.
  static llvm::Expected<std::unique_ptr<Unloader>> Make(std::shared_ptr<const Device> device, std::span<std::byte> host,
                                                        const UnloadOptions& options = {});
  ~Unloader();
  Unloader(const Unloader&) = delete;

  std::span<std::byte> host() const { return host_; }

  // Returns when all bytes are in the host's memory; after an error some may still arrive until this is destroyed.
  // Where two rows have a gap of less than kMostGap bytes between them, its bytes have no meaning then. `share`, above
  // 0 and at most 1: the part of the time in which the bus is used. One call at a time.
  [[nodiscard]] llvm::Error Unload(std::vector<DeviceRows> rows, double share = 1);

  UnloadCounts counts() const { return counts_; }

 private:
  struct Lane;
  struct Parts;
  Unloader(std::shared_ptr<const Device> device, std::span<std::byte> host, const UnloadOptions& options);
  [[nodiscard]] llvm::Error MakeParts();
  [[nodiscard]] llvm::Error UnloadAll(std::vector<DeviceRows>& rows, double share);
  [[nodiscard]] llvm::Error CopyRun(const DeviceRows& run, double share);
  [[nodiscard]] llvm::Error GatherRows(const DeviceRows& rows, double share);
  [[nodiscard]] llvm::Error GatherPiece(const DeviceRows& piece, double share);
  [[nodiscard]] llvm::Error Send(double share);
  [[nodiscard]] llvm::Error CopyOut(std::uint64_t to, std::uint64_t bytes, const std::byte* from);
  [[nodiscard]] llvm::Error Sent(double share);
  [[nodiscard]] llvm::Error Arrive(Lane& lane);
  [[nodiscard]] llvm::Error Settle();

  const pid_t process_ = ::getpid();
  const std::shared_ptr<const Device> device_;
  const std::span<std::byte> host_;
  const UnloadOptions options_;
  std::unique_ptr<Parts> parts_;
  UnloadCounts counts_;
};

}  // namespace ucp
