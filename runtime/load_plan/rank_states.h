// The part of each tensor that a rank of the target's job has when its records are loaded, and where in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/load_plan/load_plan.h"

namespace ucp {

// Local elements [begin, end) of a state, in a record from its element `place` on.
struct StatePiece {
  RecordId record;
  std::int64_t place = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct PlacedState {
  std::string tensor;
  std::string state;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // Of the local tensor at this coordinate, of which the rank may have a part.
  Coordinate coordinate;
  std::vector<StatePiece> pieces;  // By `begin`, none overlapping another.
};

// Returns one for each tensor of the model and state of which the rank has something, in the order of the plan. Where
// the rank's files hold the same elements twice, or a tensor at two coordinates, the first one counts.
std::vector<PlacedState> StatesOf(const LoadPlan& load, int rank);

}  // namespace ucp
