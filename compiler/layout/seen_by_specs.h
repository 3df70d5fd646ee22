// A checkpoint as specs see it. A spec says how the ranks of a mesh cut a tensor; boxes that a checkpoint states itself
// need not be those of any mesh, and to a spec such a tensor is whole.
#pragma once

#include <optional>

#include "compiler/layout/inventory.h"

namespace ucp {

// Returns the inventory itself, or, if it has boxes, `whole`, which then has one shard for each tensor, and no storage
// tables.
const Inventory& SeenBySpecs(const Inventory& inventory, std::optional<Inventory>& whole);
const Inventory& SeenBySpecs(Inventory&& inventory, std::optional<Inventory>& whole) = delete;  // It would be gone.

}  // namespace ucp
