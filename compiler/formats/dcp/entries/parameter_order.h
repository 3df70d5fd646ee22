// The order of the model's parameters, where groups do not list theirs. The nested dict has the order of a rank's own
// module; where ranks had other tensors, as the stages of a pipeline do, those of the last rank come first.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/dcp/entries/roles.h"

namespace ucp::dcp {

// Puts the tensors of earlier ranks before those of later ones if the numbers of the layers say that they are not.
// Returns why the order is not known all the same, as a sentence; empty if it is.
std::string PutInOrder(std::vector<ModelEntry>& tensors);

}  // namespace ucp::dcp
