// Decides how much each rank reads of bytes that several want, and when it is given to the others. Every rank computes
// all of it from the same numbers, so nothing has to be said while the exchange goes on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ucp {

// The contents that these ranks want, and nobody else.
struct SharedBytes {
  std::vector<int> ranks;   // Ascending; two at least.
  std::uint64_t bytes = 0;  // As they are wanted.
  std::uint64_t cost = 0;   // Bytes that are read for them: before they are added and cast.
  bool operator==(const SharedBytes&) const = default;
};

// Returns, by the number of a set and the place of a member among its ranks, how much of its cost that member has. The
// sums of all ranks are as even as the sets allow. `alone`, by rank: the bytes that it reads for itself.
std::vector<std::vector<std::uint64_t>> QuotasOf(std::span<const SharedBytes> sets,
                                                 std::span<const std::uint64_t> alone);

// A set is exchanged in turns, each of them in one round. A rank takes at most `round_bytes` in one round, for any
// number of ranks and sets.
struct ExchangeSchedule {
  std::vector<std::vector<std::uint32_t>> rounds_of_set;  // The round of each turn of the set; ascending.
  std::uint32_t rounds = 0;                               // Of all ranks.
};
ExchangeSchedule MakeSchedule(std::span<const SharedBytes> sets, int ranks, std::uint64_t round_bytes);

// The largest piece that may be read of a set at a time: then each member may have a piece too much in a turn.
std::uint64_t PieceBytesOf(const SharedBytes& set, std::uint64_t round_bytes);

}  // namespace ucp
