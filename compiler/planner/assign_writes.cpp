// A shard of one tensor is what the target's layout has there. A fused one says what it is put together of.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/planner/draft.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

void AddPieces(TensorId tensor, const ProductSet& set, std::int64_t begin, const std::vector<std::int64_t>& strides,
               PlanDraft& draft, PlanWrite& write) {
  for (const ProductSet& piece : IncreasingPieces(set)) {
    write.pieces.push_back({tensor, draft.Intern(piece), begin, strides});
  }
}

TensorId TensorNamed(const std::string& name, const PlanDraft& draft) {
  const auto id = draft.tensor_of_name.find(llvm::CachedHashStringRef(name));
  UCP_CHECK(id != draft.tensor_of_name.end(), "the target format wants an unknown tensor `{}`", name);
  return id->second;
}

llvm::Error AddWhole(const Shard& shard, const Mesh& mesh, PlanDraft& draft, PlanWrite& write) {
  const TensorId tensor = TensorNamed(shard.tensor, draft);
  const TensorLayout* layout = draft.TargetOf(tensor);
  UCP_CHECK(layout != nullptr, "the target format wants an unknown tensor `{}`", shard.tensor);
  UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(*layout, mesh, shard.coordinate));
  UCP_CHECK(set.LocalShape() == shard.shape, "the target format gives `{}` the shape [{}], and its layout [{}]",
            shard.tensor, fmt::join(shard.shape, ", "), fmt::join(set.LocalShape(), ", "));
  AddPieces(tensor, set, 0, {}, draft, write);
  return llvm::Error::success();
}

std::string TypeText(const LogicalTensor& tensor, const std::string& state) {
  const auto found = std::find_if(tensor.states.begin(), tensor.states.end(),
                                  [&](const LogicalTensor::State& held) { return held.name == state; });
  return found == tensor.states.end() ? "not held" : std::string(Name(found->dtype));
}

// All of a fused shard is moved in one type, and by one arithmetic.
llvm::Error CheckFused(const Shard& shard, const Plan& plan, const PlanWrite& write) {
  const PlanTensor& first = plan.tensor(write.first_tensor());
  for (const WrittenPiece& piece : write.pieces) {
    const PlanTensor& tensor = plan.tensor(piece.tensor);
    for (const StateBuffer& entry : plan.target.buffer_set(shard.states)) {
      const std::string type = TypeText(tensor.logical, entry.state);
      const std::string type_of_first = TypeText(first.logical, entry.state);
      if (type == type_of_first) continue;
      return Fail(ErrorCode::kUnsupported,
                  "the target's `{}` is put together of `{}` and `{}`, and the state `{}` is {} in the first and {} in "
                  "the second of them; they must have the same states, in the same types",
                  shard.tensor, first.logical.name, tensor.logical.name, entry.state, type_of_first, type);
    }
    if (tensor.arithmetic == first.arithmetic) continue;
    return Fail(ErrorCode::kUnsupported,
                "the target's `{}` is put together of `{}` and `{}`, which are not averaged, scaled and offset "
                "alike; convert them to a target that holds them apart, and then from there",
                shard.tensor, first.logical.name, tensor.logical.name);
  }
  return llvm::Error::success();
}

llvm::Error AddFused(const Shard& shard, const OwnPart* part, PlanDraft& draft, PlanWrite& write) {
  write.fused = FusedTensor{shard.tensor, shard.shape, shard.is_tensor};
  if (part != nullptr) {
    PartOfOwn& own = write.fused->part.emplace();
    own.shape = part->shape;
    for (const ProductSet& piece : IncreasingPieces(part->held)) own.held.push_back(draft.Intern(piece));
  }
  for (const ShardPiece& piece : shard.pieces) {
    AddPieces(TensorNamed(piece.tensor, draft), piece.set, piece.begin, piece.strides, draft, write);
  }
  std::stable_sort(write.pieces.begin(), write.pieces.end(),
                   [](const WrittenPiece& a, const WrittenPiece& b) { return a.tensor < b.tensor; });
  return CheckFused(shard, draft.plan, write);
}

}  // namespace

llvm::Error AssignWrites(const TargetFiles& target_files, PlanDraft& draft) {
  draft.plan.writes.reserve(target_files.storage.shards.size());
  const std::vector<Shard>& shards = target_files.storage.shards;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const Shard& shard = shards[s];
    const auto part = target_files.own_parts.find(s);
    const OwnPart* held = part == target_files.own_parts.end() ? nullptr : &part->second;
    PlanWrite write{{}, shard.coordinate, shard.base, shard.spread, shard.states};
    UCP_RETURN_IF_ERROR(shard.pieces.empty() ? AddWhole(shard, target_files.mesh, draft, write)
                                             : AddFused(shard, held, draft, write));
    draft.plan.writes.push_back(std::move(write));
  }
  SortBy(draft.plan.writes, [](const PlanWrite& write) { return write.first_tensor(); });
  return llvm::Error::success();
}

}  // namespace ucp
