// The pieces of fused shards: each lies in its shard, its strides are nested, and no two have an element in one place.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// Of a tensor: PyTorch's own limit. Walks over dimensions recurse once for each.
inline constexpr std::size_t kMaxRank = 64;

// Of the sets of one shard. Sets may be named again and again, so a small file can have more than there is memory for.
inline constexpr std::int64_t kMostRunsOfShard = 4'000'000;

// V1 of a fused shard, whose pieces' ids and sets are sane.
[[nodiscard]] llvm::Error VerifyFusedPieces(const Plan& plan, const PlanWrite& write);

// Returns whether each place of the shard is real in one piece at most. `sets` are those of the pieces, which
// VerifyFusedPieces() has seen. Time grows with runs and with the ways in which they lie beside one another, not with
// the elements. Also false if the strides of pieces that lie among one another have nothing to do with each other, or
// if it would take more than a few seconds; pieces of dimensions that are put together as factors are neither.
bool LieApart(const std::vector<ProductSet>& sets, llvm::ArrayRef<WrittenPiece> pieces);

}  // namespace ucp
