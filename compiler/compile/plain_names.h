// The names of a published model in place of those that wrappers gave its tensors, for targets of weights alone.
#pragma once

#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"

namespace ucp {

// Renames the tensors in the inventory, the layouts and the training state of a bound source, and says so in `remarks`.
void TakePlainNames(BoundSource& source, std::vector<std::string>& remarks);

}  // namespace ucp
