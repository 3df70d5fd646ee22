// The source's states are what a target can hold. A target that trains on holds all of them, and the verifier sees to
// it that none is forgotten; one that says so holds weights alone. Either may hold the weight of a tensor that has a
// master in the source, and then it is made from that.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "compiler/planner/draft.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

std::unordered_set<std::string_view> TensorsWithWeight(const Storage& storage) {
  std::unordered_set<std::string_view> names;
  for (const Shard& shard : storage.shards) {
    if (FindState(storage.buffer_set(shard.states), kWeightState)) names.insert(shard.tensor);
  }
  return names;
}

}  // namespace

llvm::Error AssignStates(const PlanRequest& request, PlanDraft& draft) {
  const std::unordered_set<std::string_view> with_weight = TensorsWithWeight(request.target_files.storage);
  for (PlanTensor& tensor : draft.plan.tensors) {
    std::vector<LogicalTensor::State>& states = tensor.logical.states;
    auto has = [&](std::string_view name) {
      return std::find_if(states.begin(), states.end(), [&](const auto& state) { return state.name == name; });
    };
    if (has(kWeightState) != states.end() || !with_weight.contains(tensor.logical.name)) continue;
    auto master = has(kMasterState);
    if (master == states.end()) {
      return Fail(ErrorCode::kUnsupported,
                  "the source has neither a weight nor a master of tensor `{}`, and the target wants its weight",
                  tensor.logical.name);
    }
    const LogicalTensor::State weight{kWeightState, master->dtype};
    if (request.target_files.weights_only) states.clear();
    states.push_back(weight);
  }
  return llvm::Error::success();
}

}  // namespace ucp
