// On a device, a piece is read into a slot of the ring, and the slot is sent off to the room. From there NCCL reads it,
// and into the room of each other rank NCCL writes it. One launch puts the pieces of a round in their places. Streams
// know nothing of one another, and nothing of NCCL's: each of the three waits until the device is done.
#include "runtime/load/exchange_room.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Where the pieces of each slot begin, and the end of the last. A slot is one thread's, and every thread gets some.
std::vector<std::size_t> SlotsOf(std::span<const PieceInRoom> pieces, std::uint64_t slot_bytes, unsigned threads) {
  std::uint64_t all = 0;
  for (const PieceInRoom& one : pieces) all += one.bytes.size();
  const std::uint64_t most = std::max(SlotRing::kLeastSlotBytes, all / (2 * std::uint64_t{std::max(threads, 1U)}));
  std::vector<std::size_t> begins{0};
  SlotRoom room(slot_bytes);
  std::uint64_t held = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Numbers plain{.count = pieces[i].bytes.size()};
    if (!room.Fits(plain, 1) || (held > 0 && held + plain.count > most)) {
      begins.push_back(i);
      room = SlotRoom(slot_bytes);
      held = 0;
    }
    room.Add(plain, 1);
    held += plain.count;
  }
  if (!pieces.empty()) begins.push_back(pieces.size());
  return begins;
}

}  // namespace

std::uint64_t HostRoom::held_at_once() const {
  constexpr std::uint64_t kHeld = 4;  // Bytes that are given, read and taken, and a copy to be sent.
  return kHeld + (ranks_.DeliversAllToAll() ? static_cast<std::uint64_t>(ranks_.size()) : 0);
}

llvm::Error HostRoom::Make(std::uint64_t own_bytes, std::uint64_t taken_bytes) {
  memory_.resize(2 * own_bytes + taken_bytes);
  own_[0] = std::span(memory_).first(own_bytes);
  own_[1] = std::span(memory_).subspan(own_bytes, own_bytes);
  taken_ = std::span(memory_).last(taken_bytes);
  return llvm::Error::success();
}

llvm::Error HostRoom::ReadPieces(std::span<const PieceInRoom> pieces, const ParallelOptions& parallel, Read read) {
  return ForEachInParallel(pieces.size(), parallel, [&](unsigned thread, std::uint64_t number) {
    const PieceInRoom& one = pieces[number];
    return read(thread, RangeOf(*one.content, one.piece), one.bytes);
  });
}

llvm::Error HostRoom::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  return ranks_.Deliver(sending, receiving);
}

llvm::Error HostRoom::Place(std::span<const PieceInRoom> pieces) {
  for (const PieceInRoom& one : pieces) PlaceAll(places_, *one.content, one.piece, one.bytes);
  return llvm::Error::success();
}

llvm::Error DeviceRoom::Make(std::uint64_t own_bytes, std::uint64_t taken_bytes) {
  UCP_ASSIGN_OR_RETURN(memory_, rings_.Allocate(ring_, 2 * own_bytes + taken_bytes));
  own_[0] = memory_.first(own_bytes);
  own_[1] = memory_.subspan(own_bytes, own_bytes);
  taken_ = memory_.last(taken_bytes);
  return llvm::Error::success();
}

llvm::Error DeviceRoom::ReadPieces(std::span<const PieceInRoom> pieces, const ParallelOptions& parallel, Read read) {
  const std::vector<std::size_t> begins = SlotsOf(pieces, ring_.slot_bytes(), parallel.threads);
  auto fill = [&](unsigned thread, std::uint64_t slot) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(SlotTransfer transfer, ring_.Begin());
    for (const PieceInRoom& one : pieces.subspan(begins[slot], begins[slot + 1] - begins[slot])) {
      const std::array places = {one.bytes.data()};
      const std::span<std::byte> place = transfer.Add({.count = one.bytes.size()}, places);
      UCP_RETURN_IF_ERROR(read(thread, RangeOf(*one.content, one.piece), place));
    }
    return transfer.Send();
  };
  UCP_RETURN_IF_ERROR(ForEachInParallel(begins.size() - 1, parallel, fill));
  return ring_.Wait();
}

// Ranks meet on the hosts first: there a rank that reads is waited for, and one that has died is noticed. So NCCL has
// nothing to wait for but bytes.
llvm::Error DeviceRoom::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(is_broken_ ? "broken" : ""));
  const bool is_whole = std::ranges::all_of(all, &std::string::empty);
  llvm::Error error = is_whole ? peers_.Deliver(sending, receiving) : Fail(ErrorCode::kCancelled, "interrupted");
  is_broken_ = static_cast<bool>(error);
  return error;
}

llvm::Error DeviceRoom::Place(std::span<const PieceInRoom> pieces) {
  std::vector<BytesInBuffer> moves;
  for (const PieceInRoom& one : pieces) {
    const auto from = static_cast<std::uint64_t>(one.bytes.data() - memory_.data());
    ForEachPlace(*one.content, one.piece, [&](RecordId record, std::uint64_t begin) {
      moves.push_back({from, places_.Of(record).subspan(begin, one.bytes.size())});
    });
  }
  UCP_RETURN_IF_ERROR(ring_.Move(moves, memory_.data()));
  return ring_.Wait();
}

}  // namespace ucp
