// The rank that the user believes where copies differ: `--prefer-rank dp=0,tp=1`, or `mp=1` for a universal folder,
// which has files of model-parallel ranks and does not say more of them. It counts for the values of copies and for
// single numbers and texts that ranks must agree on; degrees, shapes and names are never a matter of belief.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/mesh.h"

namespace ucp {

struct RankPreference {
  Coordinate named;  // The places that the user named; empty: nobody is believed over another.

  bool empty() const { return named.at.empty(); }
  // Returns whether the value at `place` is believed: of the axes that it has, one at least is named, and on all that
  // are named it stands at the named place. A tensor's copy has no place on `dp`, which cuts it, and a file may have
  // one.
  bool Prefers(const Coordinate& place) const;
  // Returns the one of several that is believed over the others: the first that is preferred, or simply the first.
  std::size_t FirstOf(const std::vector<Coordinate>& places) const;
  bool operator==(const RankPreference&) const = default;
};

// "dp=0,tp=1". Fails with kUsage for anything else; `text` may be empty.
llvm::Expected<RankPreference> ParseRankPreference(std::string_view text);

// Fails with kUsage if the source has no such ranks.
[[nodiscard]] llvm::Error CheckPreference(const RankPreference& preference, const Mesh& source);

// Returns the option that decides between two places: "--prefer-rank tp=0 (or tp=1) says which of them counts". It is
// empty if they are the same.
std::string PreferenceHint(const Coordinate& a, const Coordinate& b);

// One thing that a preference decided.
struct RankDecision {
  std::string what;  // "`fp32` of tensor `norm.weight`, element [3]"
  std::string believed;
  std::string believed_file;
  std::string overruled;
  std::string overruled_file;
  std::uint64_t elements = 0;  // The number of elements of a tensor that differ; 0: not of a tensor.
  bool operator==(const RankDecision&) const = default;
};

// "--prefer-rank tp=0: `lr` is 0.001 in `a.pt`, which is believed, and 0.5 in `b.pt`", a sentence for each.
std::vector<std::string> DecisionNotes(const RankPreference& preference, const std::vector<RankDecision>& decisions);

}  // namespace ucp
