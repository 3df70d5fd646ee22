#include "compiler/describe/loose_state_names.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// A state does not fit elements that are averaged or scaled on their way.
std::string WhyNotCarried(const TensorLayout& tensor) {
  if (tensor.scale == Scale{} && tensor.mean_axes.empty()) return "";
  return fmt::format("the elements of `{}` become others by {}", tensor.name, tensor.declared_at);
}

llvm::Error NamePieces(const Layout& layout, const Storage& storage, LooseState& state) {
  for (SteppedPiece& piece : state.belongs_to.pieces) {
    const Shard& shard = storage.shards[piece.shard];
    const TensorLayout* tensor = layout.Find(shard.tensor);
    piece.tensor = tensor == nullptr ? shard.tensor : tensor->name;
    if (tensor == nullptr) {
      state.why_not_carried = fmt::format("the spec drops `{}`", shard.tensor);
      continue;
    }
    UCP_ASSIGN_OR_RETURN(ProductSet held, HeldAt(*tensor, layout.mesh, shard.coordinate));
    piece.held = ToString(held);
    if (state.why_not_carried.empty()) state.why_not_carried = WhyNotCarried(*tensor);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error NameLooseStates(const Layout& layout, Checkpoint& checkpoint) {
  std::map<std::string, const LooseState*> first_of_name;
  for (LooseState& state : checkpoint.training.loose_states) {
    UCP_RETURN_IF_ERROR(NamePieces(layout, checkpoint.inventory.storage, state));
    const std::string name =
        fmt::format("{} of {}, {}", state.name, ToString(state.belongs_to), KeyOf(state.belongs_to));
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      state.tensors[i].name = i == 0 ? name : fmt::format("{}, {}", name, i);
    }
    const LooseState& first = *first_of_name.try_emplace(name, &state).first->second;
    if (HaveSameForm(first, state)) continue;
    return Fail(ErrorCode::kBadData, "the ranks have copies of {}, and `{}` of it in different forms: {}; {}",
                ToString(state.belongs_to), state.name, first.sentence, state.sentence);
  }
  return llvm::Error::success();
}

}  // namespace ucp
