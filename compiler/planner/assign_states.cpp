// The source's states are what a target can hold. A target that trains on holds all of them, and the verifier sees to
// it that none is forgotten; one that says so holds weights alone. Either may hold the weight of a tensor that has a
// master in the source, and then it is made from that.
#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/planner/draft.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// By TensorId.
std::vector<bool> HaveWeight(const TargetFiles& target_files, const PlanDraft& draft) {
  std::vector<bool> have_weight(draft.plan.tensors.size());
  for (const Shard& shard : target_files.storage.shards) {
    if (!FindState(draft.plan.target.buffer_set(shard.states), kWeightState)) continue;
    auto has_weight = [&](const std::string& name) {
      const auto tensor = draft.tensor_of_name.find(llvm::CachedHashStringRef(name));
      if (tensor != draft.tensor_of_name.end()) have_weight[tensor->second.index()] = true;
    };
    if (shard.pieces.empty()) has_weight(shard.tensor);
    for (const ShardPiece& piece : shard.pieces) has_weight(piece.tensor);
  }
  return have_weight;
}

}  // namespace

llvm::Error AssignStates(const TargetFiles& target_files, PlanDraft& draft) {
  const std::vector<bool> have_weight = HaveWeight(target_files, draft);
  for (std::size_t t = 0; t < draft.plan.tensors.size(); ++t) {
    PlanTensor& tensor = draft.plan.tensors[t];
    std::vector<LogicalTensor::State>& states = tensor.logical.states;
    auto has = [&](std::string_view name) {
      return std::find_if(states.begin(), states.end(), [&](const auto& state) { return state.name == name; });
    };
    if (has(kWeightState) != states.end() || !have_weight[t]) continue;
    auto master = has(kMasterState);
    if (master == states.end()) {
      return Fail(ErrorCode::kUnsupported,
                  "the source has neither a weight nor a master of tensor `{}`, and the target wants its weight",
                  tensor.logical.name);
    }
    const LogicalTensor::State weight{kWeightState, master->dtype};
    if (target_files.weights_only) states.clear();
    states.push_back(weight);
  }
  return llvm::Error::success();
}

}  // namespace ucp
