// The way from storage to a device: a fixed ring of slots, each a pinned buffer of the host and as much memory of the
// device. A thread takes a slot, fills it with the next bytes, and sends it off: in one transfer, followed by one
// launch that moves every piece to its place and casts it on the way, however many there are. A slot is taken again
// when the device is done with it.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/gpu/device.h"

namespace ucp {

// The bytes that came to the device, and how.
struct SlotCounts {
  std::uint64_t bytes = 0;  // Over the bus, the lists of moves included.
  std::uint64_t transfers = 0;
  std::uint64_t launches = 0;  // Of moves and fills.
};

// Part of a slot's contents: `count` numbers, or bytes, that go to one or several places in the device's memory.
struct Numbers {
  UcpNumber stored = kUcpBytes;  // As they come.
  UcpNumber wanted = kUcpBytes;  // As they are to be; kUcpBytes if and only if `stored` is.
  std::uint64_t count = 0;
};

std::uint64_t NumberBytes(UcpNumber number);

// How much of a slot is taken: contents from the front, and room for the moves that they will need.
class SlotRoom {
 public:
  explicit SlotRoom(std::uint64_t slot_bytes) : slot_bytes_(slot_bytes) {}

  bool Fits(const Numbers& numbers, std::size_t places) const;
  // Where they begin.
  std::uint64_t Add(const Numbers& numbers, std::size_t places);

  static constexpr std::size_t kMostPlaces = 64;  // Of one stretch.
  // So many bytes of any kind fit into an empty slot.
  static std::uint64_t MostBytes(std::uint64_t slot_bytes, std::size_t places = 1);

 private:
  std::uint64_t slot_bytes_;
  std::uint64_t end_ = 0;
  std::uint64_t moves_ = 0;
};

// Bytes in a buffer of the device, from byte `from` on, and their place in its memory.
struct BytesInBuffer {
  std::uint64_t from = 0;
  std::span<std::byte> to;
};

class SlotRing;

struct Slot {
  std::span<std::byte> pinned;
  std::byte* on_device = nullptr;
  std::size_t stream = 0;
  DeviceEvent done;
};

// The contents of one slot on the way to the device. Given up, it takes nothing.
class SlotTransfer {
 public:
  SlotTransfer(SlotTransfer&& other) noexcept;
  ~SlotTransfer();

  bool Fits(const Numbers& numbers, std::size_t places) const { return room_.Fits(numbers, places); }
  // They must fit. The result is to be filled before Send().
  std::span<std::byte> Add(const Numbers& numbers, std::span<std::byte* const> places);
  bool empty() const { return parts_.empty(); }
  [[nodiscard]] llvm::Error Send();

 private:
  friend class SlotRing;
  SlotTransfer(SlotRing& ring, Slot& slot);

  struct Part {
    Numbers numbers;
    std::uint64_t from = 0;
    std::byte* to = nullptr;
  };
  void AddPart(const Part& part);
  [[nodiscard]] llvm::Error SendWithMoves(std::uint64_t begin, const std::byte* buffer);
  [[nodiscard]] llvm::Error Finish();
  std::uint64_t WriteMoves(std::uint64_t at);

  SlotRing* ring_;
  Slot* slot_;
  SlotRoom room_;
  std::uint64_t end_ = 0;
  std::vector<Part> parts_;
};

class SlotRing {
 public:
  static constexpr std::uint64_t kLeastSlotBytes = std::uint64_t{64} << 10;
  // Room for a chunk of 2 MiB and its moves. On an H100, slots of 1 MiB and of 4 MiB were slower (docs/gpu.md).
  static constexpr std::uint64_t kMostSlotBytes = (std::uint64_t{2} << 20) + (std::uint64_t{16} << 10);

  // `slots`: more than there are threads that take one.
  static llvm::Expected<std::unique_ptr<SlotRing>> Make(const Device& device, std::size_t slots,
                                                        std::uint64_t slot_bytes);

  const Device& device() const { return device_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }

  // Waits until the device is done with a slot. A thread holds one at most.
  llvm::Expected<SlotTransfer> Begin();
  // The device's own memory; in no order with the slots.
  [[nodiscard]] llvm::Error Fill(std::span<std::byte> memory, std::byte value);
  // Moves what is on the device already, in no order with the slots either; the lists of moves alone cross the bus.
  [[nodiscard]] llvm::Error Move(std::span<const BytesInBuffer> bytes, const std::byte* buffer);
  // Until all that was sent is there.
  [[nodiscard]] llvm::Error Wait();

  SlotCounts counts() const { return {bytes_, transfers_, launches_}; }

 private:
  friend class SlotTransfer;

  SlotRing(const Device& device, std::uint64_t slot_bytes) : device_(device), slot_bytes_(slot_bytes) {}
  [[nodiscard]] llvm::Error MakeSlots(std::size_t slots);
  void GiveBack(Slot& slot);
  DeviceStream& StreamOf(const Slot& slot) { return streams_[slot.stream].stream; }

  struct Lane {
    DeviceEvent end;  // For Wait().
    DeviceStream stream;
  };

  const Device& device_;
  const std::uint64_t slot_bytes_;
  PinnedMemory pinned_;
  DeviceMemory staging_;
  std::vector<Slot> slots_;
  std::vector<Lane> streams_;  // Behind what they work on: they end first.
  std::mutex mutex_;           // Protects what follows.
  std::deque<Slot*> free_;     // Those sent off first are first.
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> transfers_ = 0;
  std::atomic<std::uint64_t> launches_ = 0;
};

}  // namespace ucp
