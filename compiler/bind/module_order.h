// The order in which a module has the parameters of a layout, as the lines of the layout say it.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/bind/values/bound_spec.h"

namespace ucp {

// Returns the indices of BoundSpec::tensors in the order of the lines, but for this: names that are the same up to a
// counter are of one list of modules, which stands where its first line does, module after module.
std::vector<std::size_t> ModuleOrder(const BoundSpec& bound);

}  // namespace ucp
