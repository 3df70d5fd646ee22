// The children of a value, for the walks over whole trees. A tree may share parts so often that visiting them by path
// would never end: walk by node.
#pragma once

#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// Appends the values that `value` holds directly, in the order in which a pickle writes them.
void AppendChildren(const Value& value, std::vector<const Value*>& children);

// Returns whether it is of a kind that holds other values, even if this one holds none.
bool IsContainer(const Value& value);

// Returns whether it is a plain one, without parts and without elements in a storage. Most values are.
bool IsLeaf(const Value& value);

}  // namespace ucp::pytorch
