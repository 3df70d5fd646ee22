// Writes a tree of values as a pickle of protocol 2, with the instructions that torch.save uses, so that torch.load
// reads it (also with weights_only=True, where the tree holds nothing but plain data, OrderedDict, torch.Size, dtypes,
// tensors and parameters).
#pragma once

#include <string>

#include "runtime/formats/pytorch/value.h"

namespace ucp::pytorch {

// Deterministic. An object that stands several times in the tree is written once and then referred to. Storages are
// named by their keys. The tree must be at most 1,000 levels deep (checked); what ReadPickle returns is at most 200.
std::string WritePickle(const Value& root);

}  // namespace ucp::pytorch
