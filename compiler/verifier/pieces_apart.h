// The pieces of fused shards: each lies in its shard, its strides are nested, and no two have an element in one place.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// V1 of a fused shard, whose pieces' ids and sets are sane.
[[nodiscard]] llvm::Error VerifyFusedPieces(const Plan& plan, const PlanWrite& write);

// Returns whether each place of the shard is real in one piece at most. `sets` are those of the pieces, which
// VerifyFusedPieces() has seen. Time grows with runs and with the ways in which they lie beside one another, not with
// the elements. Also false if the strides of pieces that lie among one another have nothing to do with each other, or
// if it would take more than a few seconds; pieces of dimensions that are put together as factors are neither.
bool LieApart(const std::vector<ProductSet>& sets, llvm::ArrayRef<WrittenPiece> pieces);

}  // namespace ucp
