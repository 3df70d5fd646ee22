// What several ranks want is read by one of them and given to the others, round by round: while the ranks give each
// other one round, their threads read the next one. Each content is dealt in pieces to the ranks that want it, each to
// the one that has the fewest bytes so far.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/io/parallel.h"
#include "runtime/load/contents.h"

namespace ucp {

struct ExchangeOptions {
  ParallelOptions parallel;
  std::uint64_t chunk_bytes = 0;   // Of each thread.
  std::uint64_t memory_bytes = 0;  // For what is on its way. Ranks may have different ones: the least counts.
};

class Exchange {
 public:
  // The least that is worth it.
  static std::uint64_t LeastMemory(int ranks) { return static_cast<std::uint64_t>(ranks + 2) << 16; }

  // Fills `bytes` with the elements of a range.
  using Read = llvm::function_ref<llvm::Error(unsigned thread, const TargetRange&, std::span<std::byte> bytes)>;

  // All must outlive this. `contents` is this rank's; what nobody shares is left alone.
  Exchange(const Plan& plan, const Places& places, const std::vector<SharedContents>& contents, Communicator& ranks,
           const ExchangeOptions& options)
      : plan_(plan), places_(places), contents_(contents), ranks_(ranks), options_(options) {}

  // All ranks call it. What fails on one ends it for all: that rank has its error, and the others are cancelled.
  [[nodiscard]] llvm::Error Run(Read read);

  std::uint64_t bytes_received() const { return bytes_received_; }  // From others, and wanted.

 private:
  // What one rank reads for some: which of the sets of ranks, and which of their pieces.
  struct Task {
    std::uint64_t set = 0;
    std::uint64_t piece = 0;
  };
  struct Set {
    const SharedContents* shared = nullptr;  // Null: not this rank's.
    std::vector<Piece> pieces;
  };

  [[nodiscard]] llvm::Error AgreeOnSizes();
  [[nodiscard]] llvm::Error NumberSets();
  void Deal(std::uint64_t set);
  std::string NextRound(Read read);
  llvm::Expected<bool> Place(const std::vector<std::string>& rounds);  // Whether there are more.
  std::uint64_t BytesOf(const Task& task) const;

  const Plan& plan_;
  const Places& places_;
  const std::vector<SharedContents>& contents_;
  Communicator& ranks_;
  const ExchangeOptions options_;
  std::uint64_t piece_bytes_ = 0;
  std::uint64_t round_bytes_ = 0;  // Of one rank.
  std::vector<Set> sets_;          // As all ranks number them.
  std::vector<Task> mine_;
  std::size_t done_ = 0;  // Of mine_.
  std::uint64_t bytes_received_ = 0;
};

}  // namespace ucp
