// The boxes that shards are of their tensors, where the checkpoint itself says them, as PyTorch's Distributed
// Checkpoint does: then nothing else has to say how its tensors are cut.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/sets/product_set.h"

namespace ucp {

struct TensorBoxes {
  std::vector<std::int64_t> shape;  // Of the tensor.
  std::vector<ProductSet> boxes;    // By a shard's place on kBoxAxis (layout.h). Empty: each shard is all of it.
};

using BoxesOfTensors = std::map<std::string, TensorBoxes>;  // By name.

}  // namespace ucp
