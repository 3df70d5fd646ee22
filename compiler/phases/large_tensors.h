// Tensors of the training state that are too large to be read while a source is described, such as the averaged weights
// of a callback: a plan moves them as tensors of their own, into those files of a target that have them.
#pragma once

#include <span>

#include "compiler/formats/format.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/storage.h"

namespace ucp {

// Adds those that the target's files hold to the source's inventory, and to the layouts, as whole tensors.
void AddLargeTensors(const Storage& target, Checkpoint& source, std::span<Layout* const> layouts);

}  // namespace ucp
