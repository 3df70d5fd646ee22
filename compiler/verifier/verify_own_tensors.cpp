// A target in another layout of its model has tensors of its own, each of which is one shard, put together of pieces.
// Digests are made of them, and they say a shape of them. That no two pieces have a common place is proved elsewhere
// (pieces_apart.h), so it is enough to count: the pieces of such a tensor have as many places as it has.
#include <map>
#include <string_view>

#include "compiler/verifier/unsound.h"
#include "compiler/verifier/verify_coverage.h"

namespace ucp {

llvm::Error VerifyOwnTensors(const Plan& plan) {
  std::map<std::string_view, const PlanWrite*> first_of_name;
  for (const PlanWrite& write : plan.writes) {
    if (!write.fused || !write.fused->is_tensor) continue;
    const auto [first, is_new] = first_of_name.try_emplace(write.fused->name, &write);
    if (first->second->fused->shape != write.fused->shape) {
      return Unsound("tensor `{}` of the target has two shapes", write.fused->name);
    }
    std::int64_t places = 0;
    for (const WrittenPiece& piece : write.pieces) places += plan.set(piece.set).real_elements();
    if (places == plan.LocalElements(write)) continue;
    return Unsound("tensor `{}` of the target has {} elements, and its pieces have {}", write.fused->name,
                   plan.LocalElements(write), places);
  }
  return llvm::Error::success();
}

}  // namespace ucp
