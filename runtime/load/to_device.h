// Contents on their way from storage to devices: threads read pieces in the order of the model into slots (slots.h),
// and a slot is sent off when it is full. A number that is stored in fewer bytes than it is wanted in is cast when it
// has arrived, and one that is stored in more before it leaves, so that the fewest bytes cross the bus.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/support/parallel.h"
#include "runtime/gpu/packing.h"
#include "runtime/gpu/slots.h"
#include "runtime/load/contents.h"

namespace ucp {

// A ring of slots for each device of a load.
class DeviceRings {
 public:
  // Returns the least memory of the host that is worth it.
  static std::uint64_t LeastMemory(unsigned threads, std::size_t devices);

  // For every device that has a place. `host_bytes` is for all of them, at least as above, and `device_bytes` for each:
  // too little is kUsage. `leaves_half`: of the latter for something else, if the rest suffices. The devices must
  // outlive this.
  static llvm::Expected<DeviceRings> Make(Places& places, unsigned threads, std::uint64_t host_bytes,
                                          std::uint64_t device_bytes, bool leaves_half = false);

  std::span<const std::unique_ptr<SlotRing>> rings() const { return rings_; }
  std::uint64_t host_bytes() const { return host_bytes_; }
  std::uint64_t left_device_bytes() const { return left_device_bytes_; }  // Of each device.

  // Returns memory of a ring's device that lasts until its streams have ended, and so as long as anything uses it.
  llvm::Expected<std::span<std::byte>> Allocate(const SlotRing& ring, std::uint64_t bytes);

  SlotCounts counts() const;

 private:
  std::vector<DeviceMemory> memory_;
  std::vector<std::unique_ptr<SlotRing>> rings_;
  std::vector<std::unique_ptr<Packing>> packings_;
  std::uint64_t host_bytes_ = 0;
  std::uint64_t left_device_bytes_ = 0;
};

// Returns the contents that lie on one device (null: the host), with the copies that also lie there.
std::vector<Content> ContentsOn(const Device* device, const Places& places, const std::vector<Content>& contents);

// Fills `bytes` with the elements of a range, which will be `wanted_bytes` where they are wanted.
using ReadRange = llvm::function_ref<llvm::Error(unsigned thread, const TargetRange&, std::span<std::byte> bytes,
                                                 std::uint64_t wanted_bytes)>;

// `contents` are those on the ring's device. No piece is larger than `chunk_bytes`. All is there when this returns.
[[nodiscard]] llvm::Error ReadToDevice(const Plan& plan, const Places& places, const std::vector<Content>& contents,
                                       SlotRing& ring, std::uint64_t chunk_bytes, const ParallelOptions& parallel,
                                       ReadRange read);

}  // namespace ucp
