// The union of a source: which logical tensors it holds, in which states and dtypes, whichever way they are cut. Target
// formats lay out their files from it. States that lie elsewhere than others of their tensor, so that one `base`
// (storage.h) cannot tell of both, are those of a shard of its own: the shards of a tensor have the same states, or
// none in common.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// Returns the tensors sorted by name; dropped tensors are left out. Fails where shards of one tensor have some states
// in common and others not, or have them in different dtypes, and names both, and where the inventory has a tensor that
// the layout does not.
llvm::Expected<std::vector<LogicalTensor>> JoinTensors(const Layout& layout, const Inventory& inventory);

}  // namespace ucp
