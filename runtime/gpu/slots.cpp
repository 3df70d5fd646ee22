// A slot that holds one stretch for one place goes there directly. Any other goes to the slot's memory on the device,
// with the list of its moves behind the contents, so that one transfer brings both. A launch works on many moves at
// once, but on each with few threads, so long ones are cut.
#include "runtime/gpu/slots.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kAlignment = 16;  // Of what lies in a slot; the device copies in units of as much.
constexpr std::uint64_t kMostMoveBytes = std::uint64_t{16} << 10;
constexpr std::size_t kMostStreams = 4;  // A transfer and a launch of different slots go on at the same time.

std::uint64_t Aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t NumbersOfMove(const Numbers& numbers) {
  return kMostMoveBytes / std::max(NumberBytes(numbers.stored), NumberBytes(numbers.wanted));
}

std::uint64_t MovesOf(const Numbers& numbers) {
  const std::uint64_t most = NumbersOfMove(numbers);
  return (numbers.count + most - 1) / most;
}

bool IsContinuedBy(const Numbers& numbers, std::uint64_t from, const std::byte* to, std::uint64_t next_from,
                   const std::byte* next_to) {
  return numbers.stored == kUcpBytes && from + numbers.count == next_from && to + numbers.count == next_to;
}

}  // namespace

std::uint64_t NumberBytes(UcpNumber number) {
  switch (number) {
    case kUcpBytes:
      return 1;
    case kUcpFloat64:
      return 8;
    case kUcpFloat32:
      return 4;
    case kUcpBFloat16:
    case kUcpFloat16:
      return 2;
  }
  UCP_UNREACHABLE();
}

bool SlotRoom::Fits(const Numbers& numbers, std::size_t places) const {
  const std::uint64_t end = Aligned(Aligned(end_) + numbers.count * NumberBytes(numbers.stored));
  return end + (moves_ + places * MovesOf(numbers)) * sizeof(UcpMove) <= slot_bytes_;
}

std::uint64_t SlotRoom::Add(const Numbers& numbers, std::size_t places) {
  UCP_CHECK(Fits(numbers, places), "{} numbers for {} places do not fit into a slot of {} bytes", numbers.count, places,
            slot_bytes_);
  const std::uint64_t begin = Aligned(end_);
  end_ = begin + numbers.count * NumberBytes(numbers.stored);
  moves_ += places * MovesOf(numbers);
  return begin;
}

std::uint64_t SlotRoom::MostBytes(std::uint64_t slot_bytes, std::size_t places) {
  const std::uint64_t moves = places * (slot_bytes / kMostMoveBytes + 1);
  return slot_bytes - moves * sizeof(UcpMove) - 2 * kAlignment;
}

SlotTransfer::SlotTransfer(SlotRing& ring, Slot& slot) : ring_(&ring), slot_(&slot), room_(slot.pinned.size()) {}

SlotTransfer::SlotTransfer(SlotTransfer&& other) noexcept
    : ring_(other.ring_),
      slot_(std::exchange(other.slot_, nullptr)),
      room_(other.room_),
      end_(other.end_),
      parts_(std::move(other.parts_)) {}

SlotTransfer::~SlotTransfer() {
  if (slot_ != nullptr) ring_->GiveBack(*slot_);
}

std::span<std::byte> SlotTransfer::Add(const Numbers& numbers, std::span<std::byte* const> places) {
  const std::uint64_t begin = room_.Add(numbers, places.size());
  const std::uint64_t bytes = numbers.count * NumberBytes(numbers.stored);
  for (std::byte* to : places) AddPart({numbers, begin, to});
  end_ = begin + bytes;
  return slot_->pinned.subspan(begin, bytes);
}

void SlotTransfer::AddPart(const Part& part) {
  if (!parts_.empty() && part.numbers.stored == kUcpBytes) {
    Part& last = parts_.back();
    if (IsContinuedBy(last.numbers, last.from, last.to, part.from, part.to)) {
      last.numbers.count += part.numbers.count;
      return;
    }
  }
  parts_.push_back(part);
}

// The result is how many there are.
std::uint64_t SlotTransfer::WriteMoves(std::uint64_t at) {
  std::uint64_t moves = 0;
  for (const Part& part : parts_) {
    const std::uint64_t most = NumbersOfMove(part.numbers);
    for (std::uint64_t begin = 0; begin < part.numbers.count; begin += most) {
      UcpMove move = {};
      move.to = reinterpret_cast<std::uintptr_t>(part.to) + begin * NumberBytes(part.numbers.wanted);
      move.count = std::min(most, part.numbers.count - begin);
      move.from = static_cast<std::uint32_t>(part.from + begin * NumberBytes(part.numbers.stored));
      move.from_number = static_cast<std::uint16_t>(part.numbers.stored);
      move.to_number = static_cast<std::uint16_t>(part.numbers.wanted);
      std::memcpy(slot_->pinned.data() + at + moves * sizeof move, &move, sizeof move);
      ++moves;
    }
  }
  return moves;
}

llvm::Error SlotTransfer::Send() {
  const bool is_plain = parts_.size() == 1 && parts_.front().numbers.stored == kUcpBytes;
  if (is_plain) {
    const Part& part = parts_.front();
    const std::span<std::byte> bytes = slot_->pinned.subspan(part.from, part.numbers.count);
    UCP_RETURN_IF_ERROR(ring_->StreamOf(*slot_).CopyIn(part.to, bytes));
    ring_->bytes_ += part.numbers.count;
    ++ring_->transfers_;
  } else if (!parts_.empty()) {
    UCP_RETURN_IF_ERROR(SendWithMoves(Aligned(end_), slot_->on_device));
  }
  return Finish();
}

// The list stands `begin` bytes behind the beginning of the slot, and so many bytes before it are the slot's contents.
llvm::Error SlotTransfer::SendWithMoves(std::uint64_t begin, const std::byte* buffer) {
  DeviceStream& stream = ring_->StreamOf(*slot_);
  const std::uint64_t moves = WriteMoves(begin);
  const std::uint64_t bytes = begin + moves * sizeof(UcpMove);
  UCP_RETURN_IF_ERROR(stream.CopyIn(slot_->on_device, slot_->pinned.first(bytes)));
  ring_->bytes_ += bytes;
  ++ring_->transfers_;
  UCP_RETURN_IF_ERROR(stream.Move(slot_->on_device + begin, static_cast<std::uint32_t>(moves), buffer));
  ++ring_->launches_;
  return llvm::Error::success();
}

llvm::Error SlotTransfer::Finish() {
  UCP_RETURN_IF_ERROR(ring_->StreamOf(*slot_).Record(slot_->done));
  ring_->GiveBack(*std::exchange(slot_, nullptr));
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<SlotRing>> SlotRing::Make(const Device& device, std::size_t slots,
                                                         std::uint64_t slot_bytes) {
  std::unique_ptr<SlotRing> ring(new SlotRing(device, slot_bytes));
  UCP_RETURN_IF_ERROR(ring->MakeSlots(slots));
  return ring;
}

llvm::Error SlotRing::MakeSlots(std::size_t slots) {
  UCP_ASSIGN_OR_RETURN(pinned_, PinnedMemory::Make(device_, slots * slot_bytes_));
  UCP_ASSIGN_OR_RETURN(staging_, DeviceMemory::Make(device_, slots * slot_bytes_));
  while (streams_.size() < std::min(slots, kMostStreams)) {
    UCP_ASSIGN_OR_RETURN(DeviceEvent end, DeviceEvent::Make(device_));
    UCP_ASSIGN_OR_RETURN(DeviceStream stream, DeviceStream::Make(device_));
    streams_.push_back({std::move(end), std::move(stream)});
  }
  slots_.reserve(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    UCP_ASSIGN_OR_RETURN(DeviceEvent done, DeviceEvent::Make(device_));
    slots_.push_back({pinned_.bytes().subspan(slot * slot_bytes_, slot_bytes_),
                      staging_.bytes().data() + slot * slot_bytes_, slot % streams_.size(), std::move(done)});
    free_.push_back(&slots_.back());
  }
  return llvm::Error::success();
}

llvm::Expected<SlotTransfer> SlotRing::Begin() {
  Slot* slot = nullptr;
  {
    std::lock_guard lock(mutex_);
    UCP_CHECK(!free_.empty(), "all {} slots are in use", slots_.size());
    slot = free_.front();
    free_.pop_front();
  }
  SlotTransfer transfer(*this, *slot);
  UCP_RETURN_IF_ERROR(slot->done.Wait());
  return transfer;
}

void SlotRing::GiveBack(Slot& slot) {
  std::lock_guard lock(mutex_);
  free_.push_back(&slot);
}

llvm::Error SlotRing::Fill(std::span<std::byte> memory, std::byte value) {
  ++launches_;
  return streams_.front().stream.Fill(memory, value);
}

llvm::Error SlotRing::Move(std::span<const BytesInBuffer> bytes, const std::byte* buffer) {
  const std::uint64_t most = slot_bytes_ / sizeof(UcpMove);
  while (!bytes.empty()) {
    UCP_ASSIGN_OR_RETURN(SlotTransfer transfer, Begin());
    for (std::uint64_t moves = 0; !bytes.empty(); bytes = bytes.subspan(1)) {
      const Numbers numbers{.count = bytes.front().to.size()};
      moves += MovesOf(numbers);
      if (moves > most) break;
      transfer.AddPart({numbers, bytes.front().from, bytes.front().to.data()});
    }
    UCP_CHECK(!transfer.empty(), "{} bytes are more than a list of {} moves has", bytes.front().to.size(), most);
    UCP_RETURN_IF_ERROR(transfer.SendWithMoves(0, buffer));
    UCP_RETURN_IF_ERROR(transfer.Finish());
  }
  return llvm::Error::success();
}

llvm::Error SlotRing::Wait() {
  for (Lane& lane : streams_) UCP_RETURN_IF_ERROR(lane.stream.Record(lane.end));
  for (Lane& lane : streams_) UCP_RETURN_IF_ERROR(lane.end.Wait());
  return llvm::Error::success();
}

}  // namespace ucp
