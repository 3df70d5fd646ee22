// The entries that torch makes of a nested state dict (torch.distributed.checkpoint._traverse). Since PyTorch 2.4 it
// goes into dicts, and into lists that have a tensor or a dict in them; before, into dicts and lists that have a tensor
// anywhere in them. Everything else is one value.
#pragma once

#include <vector>

#include "compiler/formats/dcp/write/entry_path.h"
#include "compiler/formats/dcp/write/torch_release.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::dcp {

struct FlatEntry {
  EntryPath path;
  pytorch::ValuePtr value;  // A tensor, or a value as a whole.
};

// Adds the entries of the value at `path`. A dict whose keys are not all texts and integers is one value. An empty dict
// has no entries.
void Flatten(const EntryPath& path, const pytorch::ValuePtr& value, TorchRelease release,
             std::vector<FlatEntry>& entries);

}  // namespace ucp::dcp
