#include <fmt/format.h>

#include "compiler/planner/draft.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {

llvm::Error AssignWrites(const TargetFiles& target_files, PlanDraft& draft) {
  draft.plan.writes.reserve(target_files.storage.shards.size());
  for (const Shard& shard : target_files.storage.shards) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    auto id = draft.tensor_of_name.find(llvm::CachedHashStringRef(shard.tensor));
    const TensorLayout* layout = id == draft.tensor_of_name.end() ? nullptr : draft.TargetOf(id->second);
    UCP_CHECK(layout != nullptr, "the target format wants an unknown tensor `{}`", shard.tensor);
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(*layout, target_files.mesh, shard.coordinate));
    UCP_CHECK(set.LocalShape() == shard.shape, "the target format gives `{}` the shape [{}], and its layout [{}]",
              shard.tensor, fmt::join(shard.shape, ", "), fmt::join(set.LocalShape(), ", "));
    PlanWrite write{id->second, {}, shard.coordinate, shard.base, shard.spread, shard.states};
    for (const ProductSet& piece : IncreasingPieces(set)) write.pieces.push_back(draft.Intern(piece));
    draft.plan.writes.push_back(std::move(write));
  }
  SortBy(draft.plan.writes, [](const PlanWrite& write) { return write.tensor; });
  return llvm::Error::success();
}

}  // namespace ucp
