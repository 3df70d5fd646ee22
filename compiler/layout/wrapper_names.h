// Parts of names that wrappers of a module add, and that a published model's names do not have:
//
//   _orig_mod.                    torch.compile, at the front or around one block
//   _checkpoint_wrapped_module.   activation checkpointing
//   _fsdp_wrapped_module.         FullyShardedDataParallel
//   module.                       DataParallel, DistributedDataParallel: at the front of every name
//   base_model.model.             PEFT: at the front of every name, and then `base_layer.` around each adapted layer
//   model.                        a LightningModule's own: at the front of every name
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ucp {

// Returns the name under which a module's `state_dict()` has the tensor that `named_parameters()` calls `name`:
// PyTorch's activation checkpointing takes its component out of a state dict alone.
std::string NameInStateDict(std::string name);

struct PlainNames {
  std::map<std::string, std::string> plain;  // Of each name that changes. No two are the same, nor an unchanged name.
  std::vector<std::string> wrappers;         // The parts that were taken out: "_orig_mod.", …
  std::string clash;                         // "`a` and `b` would both be `c`": nothing changes then. Else empty.
  std::string of_adapter;                    // The first name that is an adapter's own; empty if none is.
};

// `is_of_lightning`: PyTorch Lightning saved them.
PlainNames WithoutWrappers(const std::set<std::string>& names, bool is_of_lightning);

}  // namespace ucp
