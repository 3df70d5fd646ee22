// Where bytes are while they are on their way between ranks, and how they get there: in the memory of the hosts, by
// way of the ranks' communicator, or in that of their devices, by NCCL.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/support/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl_ranks.h"
#include "runtime/load/contents.h"
#include "runtime/load/to_device.h"

namespace ucp {

// A piece, and where its elements are on their way.
struct PieceInRoom {
  const Content* content = nullptr;
  Piece piece;
  std::span<std::byte> bytes;
};

class ExchangeRoom {
 public:
  // Fills `bytes`, which are the host's, with the elements of a range.
  using Read = llvm::function_ref<llvm::Error(unsigned thread, const TargetRange&, std::span<std::byte> bytes)>;

  virtual ~ExchangeRoom() = default;

  // Returns how many times the bytes of a round are held at once: those that are given, read for the next round and
  // taken, and copies of them.
  virtual std::uint64_t held_at_once() const = 0;
  virtual std::uint64_t most_piece_bytes() const = 0;
  virtual std::uint64_t host_bytes() const = 0;  // That it takes, once it is made.

  [[nodiscard]] virtual llvm::Error Make(std::uint64_t own_bytes, std::uint64_t taken_bytes) = 0;
  // For what this rank reads for a round, in turns, and for what it takes.
  std::span<std::byte> own(std::size_t round) const { return own_[round % 2]; }
  std::span<std::byte> taken() const { return taken_; }

  // Each returns when it is done with all of its bytes. Place() puts pieces where this rank wants them; those for a
  // device are there after Places::Finish(). Beside Read(), which has threads of its own, at most Deliver() goes on.
  [[nodiscard]] virtual llvm::Error ReadPieces(std::span<const PieceInRoom> pieces, const ParallelOptions& parallel,
                                               Read read) = 0;
  [[nodiscard]] virtual llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) = 0;
  [[nodiscard]] virtual llvm::Error Place(std::span<const PieceInRoom> pieces) = 0;

 protected:
  std::span<std::byte> own_[2];
  std::span<std::byte> taken_;
};

class HostRoom : public ExchangeRoom {
 public:
  HostRoom(const Places& places, Communicator& ranks) : places_(places), ranks_(ranks) {}

  std::uint64_t held_at_once() const override;
  std::uint64_t most_piece_bytes() const override { return UINT64_MAX; }
  std::uint64_t host_bytes() const override { return memory_.size(); }
  llvm::Error Make(std::uint64_t own_bytes, std::uint64_t taken_bytes) override;
  llvm::Error ReadPieces(std::span<const PieceInRoom> pieces, const ParallelOptions& parallel, Read read) override;
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override;
  llvm::Error Place(std::span<const PieceInRoom> pieces) override;

 private:
  const Places& places_;
  Communicator& ranks_;
  std::vector<std::byte> memory_;
};

// All that this rank wants lies on one device, which has a ring.
class DeviceRoom : public ExchangeRoom {
 public:
  DeviceRoom(const Places& places, DeviceRings& rings, Communicator& ranks, NcclPeers& peers)
      : places_(places), rings_(rings), ring_(*rings.rings().front()), ranks_(ranks), peers_(peers) {}

  std::uint64_t held_at_once() const override { return 3; }
  std::uint64_t most_piece_bytes() const override { return SlotRoom::MostBytes(ring_.slot_bytes()); }
  std::uint64_t host_bytes() const override { return 0; }
  llvm::Error Make(std::uint64_t own_bytes, std::uint64_t taken_bytes) override;
  llvm::Error ReadPieces(std::span<const PieceInRoom> pieces, const ParallelOptions& parallel, Read read) override;
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override;
  llvm::Error Place(std::span<const PieceInRoom> pieces) override;

 private:
  const Places& places_;
  DeviceRings& rings_;
  SlotRing& ring_;
  Communicator& ranks_;
  NcclPeers& peers_;
  bool is_broken_ = false;  // Whether a delivery has failed: NCCL does none after that.
  std::span<std::byte> memory_;
};

}  // namespace ucp
