// The tensors and values in an item, with the keys that lead to them.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::dcp {

// Calls `visit` for each of them until it fails, in the order of the item. An item is taken apart as
// torch.distributed.checkpoint does it: dicts with texts as keys, and lists that hold tensors or such dicts. So are
// other dicts and tuples that hold tensors; keys that are numbers become texts. Everything else is a value, which may
// be the item itself, with an empty path. Dicts without entries are passed over, as PyTorch does. Fails (kUnsupported)
// for dicts that hold tensors below keys of other kinds.
[[nodiscard]] llvm::Error ForEachLeaf(
    const pytorch::ValuePtr& item,
    llvm::function_ref<llvm::Error(std::vector<PathPart> path, const pytorch::ValuePtr& value)> visit);

}  // namespace ucp::dcp
