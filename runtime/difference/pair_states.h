// Pairs the states of a tensor in one checkpoint with those in another.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"

namespace ucp {

// One state of a whole tensor. Of a tensor without elements, `range` has none.
struct WholeState {
  std::string name;
  TargetRange range;
};

struct WholeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<WholeState> states;  // By name.
  bool is_of_model = true;         // Else it is a state of the optimizer that is a tensor of its own.
};

// Returns the tensors of a plan onto whole tensors, by name, without those that a spec drops.
std::vector<WholeTensor> WholeTensorsOf(const Plan& plan);

// Returns whether a checkpoint has no state but its model's weights: no master, and nothing of an optimizer.
bool HoldsWeightsAlone(const std::vector<WholeTensor>& tensors);

// The side whose elements should be the other's, cast to its own dtype.
enum class DeclaredCast { kNone, kOfA, kOfB };

struct StatePair {
  const WholeState* a = nullptr;  // Null: only the other has it.
  const WholeState* b = nullptr;
  DeclaredCast cast = DeclaredCast::kNone;
  bool is_beyond_weights = false;  // The side that does not have it holds weights alone.
};

inline bool HasBoth(const StatePair& pair) { return pair.a != nullptr && pair.b != nullptr; }

struct TensorPair {
  const WholeTensor* a = nullptr;
  const WholeTensor* b = nullptr;
  std::vector<StatePair> states;  // Empty if the shapes differ.
};

// One of the checkpoints. Of `tensors` there may be some only.
struct WholeSide {
  const std::vector<WholeTensor>& tensors;
  bool holds_weights_alone = false;
};

// Pairs tensors by name; against a side that holds weights alone, and lacks the name, by the plain name
// (wrapper_names.h). States are paired by name; and where one checkpoint has a tensor's master and the other only its
// weight, those two. Where the dtypes of two weights, or of a master and a weight, differ, one is a declared cast: the
// weight of the master; of two weights the one that stands in a checkpoint of weights alone, and else the narrower one.
std::vector<TensorPair> PairStates(const WholeSide& a, const WholeSide& b);

}  // namespace ucp
