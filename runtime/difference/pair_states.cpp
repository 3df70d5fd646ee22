#include "runtime/difference/pair_states.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/layout/wrapper_names.h"

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

bool IsWeight(const WholeState& state) { return state.name == kWeightState; }

DeclaredCast CastOf(const StatePair& pair, bool a_holds_weights_alone, bool b_holds_weights_alone) {
  const DType a = pair.a->range.dtype;
  const DType b = pair.b->range.dtype;
  if (a == b || !IsArithmetic(a) || !IsArithmetic(b)) return DeclaredCast::kNone;
  if (IsWeight(*pair.a) != IsWeight(*pair.b)) return IsWeight(*pair.a) ? DeclaredCast::kOfA : DeclaredCast::kOfB;
  if (!IsWeight(*pair.a)) return DeclaredCast::kNone;
  if (a_holds_weights_alone != b_holds_weights_alone) {
    return a_holds_weights_alone ? DeclaredCast::kOfA : DeclaredCast::kOfB;
  }
  if (ItemBytes(a) == ItemBytes(b)) return DeclaredCast::kNone;
  return ItemBytes(a) < ItemBytes(b) ? DeclaredCast::kOfA : DeclaredCast::kOfB;
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

std::vector<StatePair> StatesOfOne(const WholeTensor* a, const WholeTensor* b, bool other_holds_weights_alone) {
  const WholeTensor& tensor = a != nullptr ? *a : *b;
  std::vector<StatePair> states;
  for (const WholeState& state : tensor.states) {
    StatePair pair;
    (a != nullptr ? pair.a : pair.b) = &state;
    pair.is_beyond_weights = other_holds_weights_alone && !tensor.is_of_model;
    states.push_back(pair);
  }
  return states;
}

std::set<std::string> NamesOf(const WholeSide& side) {
  std::set<std::string> names;
  for (const WholeTensor& tensor : side.tensors) names.insert(tensor.name);
  return names;
}

// The names by which tensors of one side are looked for in the other, where those are not their own: a published model
// lacks what wrappers added.
std::map<std::string, std::string> PlainNamesOf(const WholeSide& side, const WholeSide& other) {
  const std::set<std::string> names = NamesOf(side);
  const std::set<std::string> others = NamesOf(other);
  if (!other.holds_weights_alone || side.holds_weights_alone) return {};
  std::map<std::string, std::string> plain;
  for (const bool is_of_lightning : {false, true}) {
    for (const auto& [name, found] : WithoutWrappers(names, is_of_lightning).plain) {
      if (!others.contains(name) && others.contains(found)) plain.emplace(name, found);
    }
  }
  return plain;
}

}  // namespace

std::vector<WholeTensor> WholeTensorsOf(const Plan& plan) {
  std::vector<WholeTensor> tensors;
  for (const PlanTensor& tensor : plan.tensors) {
    WholeTensor whole{tensor.logical.name, tensor.logical.shape, {}};
    for (const LogicalTensor::State& state : tensor.logical.states) {
      whole.states.push_back({state.name, {}});
      whole.states.back().range.dtype = state.dtype;
    }
    tensors.push_back(std::move(whole));
  }
  std::map<std::string, WholeTensor> own;  // Of the target, put together of the plan's.
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    const PlanWrite& write = plan.writes[range.write];
    if (write.fused) {
      WholeTensor& tensor = own.try_emplace(write.fused->name, write.fused->name, write.fused->shape).first->second;
      tensor.states.push_back({range.state, range});
      for (const WrittenPiece& piece : write.pieces) tensors[piece.tensor.index()].states.clear();
      return;
    }
    for (WholeState& state : tensors[write.first_tensor().index()].states) {
      if (state.name == range.state) state.range = range;
    }
  });
  for (auto& [name, tensor] : own) tensors.push_back(std::move(tensor));
  std::erase_if(tensors, [](const WholeTensor& tensor) { return tensor.states.empty(); });
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

bool HoldsWeightsAlone(const std::vector<WholeTensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const WholeTensor& tensor) {
    return tensor.is_of_model && std::all_of(tensor.states.begin(), tensor.states.end(), IsWeight);
  });
}

std::vector<TensorPair> PairStates(const WholeSide& a, const WholeSide& b) {
  std::map<std::string, TensorPair> pairs;
  const std::map<std::string, std::string> plain_a = PlainNamesOf(a, b);
  const std::map<std::string, std::string> plain_b = PlainNamesOf(b, a);
  auto pair_of = [&](const std::string& name, const std::map<std::string, std::string>& plain) -> TensorPair& {
    auto found = plain.find(name);
    return pairs[found == plain.end() ? name : found->second];
  };
  for (const WholeTensor& tensor : a.tensors) pair_of(tensor.name, plain_a).a = &tensor;
  for (const WholeTensor& tensor : b.tensors) pair_of(tensor.name, plain_b).b = &tensor;
  std::vector<TensorPair> sorted;
  for (auto& [name, pair] : pairs) {
    if (pair.a == nullptr || pair.b == nullptr) {
      pair.states = StatesOfOne(pair.a, pair.b, (pair.a == nullptr ? a : b).holds_weights_alone);
    } else if (pair.a->shape == pair.b->shape) {
      pair.states = PairStatesOf(*pair.a, *pair.b);
      for (StatePair& states : pair.states) {
        if (HasBoth(states)) {
          states.cast = CastOf(states, a.holds_weights_alone, b.holds_weights_alone);
        } else {
          const WholeState& held = states.a != nullptr ? *states.a : *states.b;
          states.is_beyond_weights = (states.a == nullptr ? a : b).holds_weights_alone && !IsWeight(held);
        }
      }
    }
    sorted.push_back(std::move(pair));
  }
  return sorted;
}

}  // namespace ucp
