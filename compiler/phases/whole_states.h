// A place for every number of a model: each tensor whole and row-major, each of its states a file.
#pragma once

#include <span>

#include "compiler/layout/target.h"

namespace ucp {

// Files are named by their numbers. Shards are in the order of the tensors.
Storage OneFileForEachState(std::span<const LogicalTensor> tensors);

}  // namespace ucp
