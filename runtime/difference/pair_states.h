// Which state of a tensor in one checkpoint is held against which one in another.
#pragma once

#include <optional>
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
};

// Of a plan onto whole tensors, by name; what a spec drops is left out.
std::vector<WholeTensor> WholeTensors(const Plan& plan);

struct StatePair {
  const WholeState* a = nullptr;  // Null: only the other has it.
  const WholeState* b = nullptr;
};

struct TensorPair {
  const WholeTensor* a = nullptr;
  const WholeTensor* b = nullptr;
  std::vector<StatePair> states;  // Empty if only one has the tensor, or the shapes differ.
};

// By name. States are paired by name; and where one checkpoint has a tensor's master and the other only its weight,
// those two.
std::vector<TensorPair> PairStates(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b);

}  // namespace ucp
