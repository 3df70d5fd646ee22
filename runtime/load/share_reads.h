// Contents that several ranks want are read by one of them and given to the others, and to nobody else. Each of them
// reads a stretch of its own, so that files are read in order and not all ranks begin with the same one. A room
// (exchange_room.h) holds what is on its way.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/load/contents.h"
#include "runtime/load/exchange_room.h"
#include "runtime/load/share_schedule.h"

namespace ucp {

struct ExchangeOptions {
  ParallelOptions parallel;
  std::uint64_t chunk_bytes = 0;   // Of each thread.
  std::uint64_t memory_bytes = 0;  // For what is on its way. Ranks may have different ones: the least counts.
};

class Exchange {
 public:
  // Returns the least that is worth it: a megabyte, and room for a number from each rank.
  static std::uint64_t LeastMemory(int ranks) { return (static_cast<std::uint64_t>(ranks) + 4096) << 8; }

  using Read = ExchangeRoom::Read;

  // All must outlive this. `contents` is this rank's; records that nobody shares are left alone. All ranks have the
  // same kind of room.
  Exchange(const Plan& plan, const std::vector<SharedContents>& contents, Communicator& ranks, ExchangeRoom& room,
           const ExchangeOptions& options)
      : plan_(plan), contents_(contents), ranks_(ranks), room_(room), options_(options) {}

  // All ranks call it. A failure of one ends it for all: that rank has its error, and the others are cancelled.
  [[nodiscard]] llvm::Error Run(Read read);

  std::uint64_t bytes_received() const { return bytes_received_; }

 private:
  // The part of one set that one rank reads in one turn: pieces [first, end).
  struct Part {
    std::size_t set = 0;
    int reader = 0;
    std::size_t first = 0;
    std::size_t end = 0;
    std::span<std::byte> bytes;  // Where it is while it is on its way.
  };
  struct Set {
    std::vector<int> ranks;
    const std::vector<Content>* contents = nullptr;
    std::vector<Piece> pieces;  // In the order in which they are dealt.
  };
  enum class Side { kReads, kTakes };

  [[nodiscard]] llvm::Error AgreeOnSizes();
  llvm::Expected<std::vector<SharedBytes>> GatherSets(std::vector<std::uint64_t>& alone);
  void Deal(const std::vector<SharedBytes>& sets, const std::vector<std::uint64_t>& alone);
  void DealSet(std::size_t set, const std::vector<std::uint64_t>& quotas, const std::vector<std::uint32_t>& rounds);
  void AddTurns(const Part& stretch, const std::vector<std::uint32_t>& rounds);
  std::string EncodeSets() const;
  std::uint64_t BytesOf(const Set& set, const Piece& piece) const;
  std::uint64_t BytesOf(const Part& part) const;
  [[nodiscard]] llvm::Error MakeRoom();
  std::vector<Part> PartsOf(std::size_t round, Side side, std::span<std::byte> left) const;
  std::vector<PieceInRoom> PiecesOf(const std::vector<Part>& parts) const;
  llvm::Error ReadParts(const std::vector<Part>& parts, Read read) const;
  llvm::Expected<std::vector<Part>> RunRound(std::size_t number, const std::vector<Part>& own, Read read);
  llvm::Error Deliver(const std::vector<Part>& own, const std::vector<Part>& taken);
  void Note(llvm::Error error);
  llvm::Expected<bool> HasAnyFailed();
  llvm::Error Outcome() const;  // Once any rank has failed.

  const Plan& plan_;
  const std::vector<SharedContents>& contents_;
  Communicator& ranks_;
  ExchangeRoom& room_;
  const ExchangeOptions options_;
  std::uint64_t round_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::vector<Set> sets_;                  // This rank's.
  std::vector<std::vector<Part>> rounds_;  // The parts that this rank reads or takes in each.
  std::optional<FailureText> failure_;     // This rank's.
  std::uint64_t bytes_received_ = 0;
};

}  // namespace ucp
