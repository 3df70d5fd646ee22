#include "runtime/difference/pair_states.h"

#include <algorithm>
#include <map>

namespace ucp {
namespace {

const WholeState* Find(const WholeTensor& tensor, const std::string& name) {
  for (const WholeState& state : tensor.states) {
    if (state.name == name) return &state;
  }
  return nullptr;
}

// Null unless `tensor` has its master alone and `other` the weight alone.
const WholeState* MasterAgainstWeight(const WholeTensor& tensor, const WholeTensor& other) {
  const bool is_asked = Find(tensor, kWeightState) == nullptr && Find(other, kMasterState) == nullptr;
  return is_asked && Find(other, kWeightState) != nullptr ? Find(tensor, kMasterState) : nullptr;
}

std::vector<StatePair> PairStatesOf(const WholeTensor& a, const WholeTensor& b) {
  std::map<std::string, StatePair> pairs;
  for (const WholeState& state : a.states) pairs[state.name].a = &state;
  for (const WholeState& state : b.states) pairs[state.name].b = &state;
  if (MasterAgainstWeight(a, b) != nullptr) {
    pairs[kMasterState].b = pairs[kWeightState].b;
    pairs.erase(kWeightState);
  } else if (MasterAgainstWeight(b, a) != nullptr) {
    pairs[kMasterState].a = pairs[kWeightState].a;
    pairs.erase(kWeightState);
  }
  std::vector<StatePair> sorted;
  for (const auto& [name, pair] : pairs) sorted.push_back(pair);
  return sorted;
}

}  // namespace

std::vector<WholeTensor> WholeTensors(const Plan& plan) {
  std::vector<WholeTensor> tensors;
  for (const PlanTensor& tensor : plan.tensors) {
    WholeTensor whole{tensor.logical.name, tensor.logical.shape, {}};
    for (const LogicalTensor::State& state : tensor.logical.states) {
      whole.states.push_back({state.name, {}});
      whole.states.back().range.dtype = state.dtype;
    }
    tensors.push_back(std::move(whole));
  }
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    for (WholeState& state : tensors[plan.writes[range.write].tensor.index()].states) {
      if (state.name == range.state) state.range = range;
    }
  });
  std::erase_if(tensors, [](const WholeTensor& tensor) { return tensor.states.empty(); });
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

std::vector<TensorPair> PairStates(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b) {
  std::map<std::string, TensorPair> pairs;
  for (const WholeTensor& tensor : a) pairs[tensor.name].a = &tensor;
  for (const WholeTensor& tensor : b) pairs[tensor.name].b = &tensor;
  std::vector<TensorPair> sorted;
  for (auto& [name, pair] : pairs) {
    const bool fit = pair.a != nullptr && pair.b != nullptr && pair.a->shape == pair.b->shape;
    if (fit) pair.states = PairStatesOf(*pair.a, *pair.b);
    sorted.push_back(std::move(pair));
  }
  return sorted;
}

}  // namespace ucp
