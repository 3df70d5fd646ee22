// From one layout of a model to another: of each tensor of the second, the tensors of the first that it is put together
// of, and how.
//
// Two pieces of one part meet in the places that both have of each factor. Where a factor is a loop on both sides it is
// a loop of the move, with a stride in each tensor. Loops of one dimension of the source that are also one row in the
// target are one; of those that are left in a dimension, the longest stays a loop, and the others are written out: a
// planned piece has one stride for each dimension of its tensor (docs/plan.md, fused shards).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/stored_parts.h"
#include "compiler/layout/storage.h"

namespace ucp {

// By the names of the target's tensors. Those of optional tensors of which the source has nothing are left out.
using PiecesOfTensors = std::map<std::string, std::vector<ShardPiece>>;

// Both sides of a conversion within a model: its bound layout, and FindStoredParts() of that.
struct LayoutOfModel {
  const BoundSpec& bound;
  const StoredParts& stored;
};

// A plan of more pieces is refused.
inline constexpr std::int64_t kMostPieces = 4'000'000;

// Returns nothing after reporting elements that one side stores and the other does not (part-missing), or a move that
// takes more pieces than a plan may have.
std::optional<PiecesOfTensors> FindPiecesBetween(const LayoutOfModel& source, const LayoutOfModel& target,
                                                 DiagnosticSink& sink);

}  // namespace ucp
