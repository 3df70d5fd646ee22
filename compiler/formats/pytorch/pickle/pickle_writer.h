// Writes a tree of values as a pickle of protocol 2, with the instructions that torch.save uses, so that torch.load
// reads it (also with weights_only=True, where the tree holds nothing but plain data, OrderedDict, torch.Size, dtypes,
// tensors and parameters).
#pragma once

#include <functional>
#include <string>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// Deterministic. An object that stands several times in the tree is written once and then referred to. Storages are
// named by their keys. The tree must be at most 1,000 levels deep (checked); a tree of ReadPickle has at most 200.
// `show`, if there is one, is called with each storage that the tree names, as often as a tensor of its own has it.
std::string WritePickle(const Value& root, const std::function<void(const Storage&)>& show = {});

}  // namespace ucp::pytorch
