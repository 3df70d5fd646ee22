// The entries of Megatron-FSDP (`--ckpt-format fsdp_dtensor`), which has names of its own for what get_state_dict() of
// torch.distributed.checkpoint.state_dict has too:
//
//   model.module.a.mlp.linear_fc1.weight_w, …_v                  the two halves of a.mlp.linear_fc1.weight
//   optimizer.state.module.module.a.bias.exp_avg                 a state of a.bias
//   optimizer.param_to_group_meta.module.module.a.bias.lr        a hyper-parameter of it
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

// Returns whether some entry is a setting of a parameter, or all halves among the model's entries are pairs.
bool IsOfMegatronFsdp(std::span<const Entry> entries);

// Gives them the keys and paths that get_state_dict() would, and layers' norms the names that Megatron Core stores them
// by; joins halves, of which each chunk stays one. Fails (kBadData) for half of a tensor without the other.
[[nodiscard]] llvm::Error RenameMegatronFsdp(std::vector<Entry>& entries);

}  // namespace ucp::dcp
