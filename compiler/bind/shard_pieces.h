// The pieces of the source's tensors that a shard of the target is put together of.
//
// Loops of one dimension of the source that are also one row in the target are one; of those that are left in a
// dimension, the longest stays a loop, and the others are written out: a planned piece has one stride for each
// dimension of its tensor (docs/plan.md, fused shards).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "compiler/bind/between_layouts.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// A plan whose pieces have more runs than this is refused.
inline constexpr std::int64_t kMostPieces = 4'000'000;

// Returns how many runs of positions the pieces have, about; `shape` is that of the target's whole tensor.
std::int64_t RunsOfPieces(const CommonElements& elements, const std::vector<std::int64_t>& shape);

// Returns the pieces of the shard that holds `held` of a tensor of the target, of which `elements`, at least one, are
// all. Takes their runs off `runs_left`; with pieces of more runs it is negative, and nothing is returned.
std::vector<ShardPiece> PiecesOf(const std::vector<CommonElements>& elements, const ProductSet& held,
                                 std::int64_t& runs_left);

// Says of each shard of the target's files what it is put together of; `layout` says how the target's ranks hold its
// tensors. Shards of other tensors stay as they are. A shard that holds nothing of its tensor has one piece without
// places. Fails with kUnsupported if a plan would have too many pieces. A tensor that is put together of numbers
// without dimensions has no piece without places, and fails likewise.
[[nodiscard]] llvm::Error FillPieces(const CommonOfTensors& common, const Layout& layout, TargetFiles& target);

}  // namespace ucp
