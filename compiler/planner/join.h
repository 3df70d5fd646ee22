// The union of a source: which logical tensors it holds, in which states and dtypes, whichever way they are cut. Target
// formats lay out their files from it.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// Sorted by name; dropped tensors are left out. Fails where shards of one tensor have different states, dtypes or
// kinds, and names both, and where the inventory has a tensor that the layout does not.
llvm::Expected<std::vector<LogicalTensor>> JoinTensors(const Layout& layout, const Inventory& inventory);

}  // namespace ucp
