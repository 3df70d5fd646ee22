// Values on which the model-states files of several ranks must agree: DeepSpeed's native checkpoints and its universal
// folders both have such files.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/common/model_states.h"

namespace ucp {

// Compares the values that the engine counts and restores, the iteration that Megatron-DeepSpeed counts, and
// `universal_checkpoint_info`, of which no rank is believed over another. `a` is the one that counts.
[[nodiscard]] llvm::Error CheckEngineAlike(Inventory& inventory, const ModelStates& a, const ModelStates& b);

// Joins the model states of all model-parallel ranks, in the order of the ranks, and returns the index of the one that
// counts. Adds the facts that it states, those that other ranks contradict as disputed, and remarks on entries that
// training scripts saved otherwise on each rank. Afterwards all states have the values of the one that counts wherever
// CheckEngineAlike() compares them.
llvm::Expected<std::size_t> JoinModelStates(Inventory& inventory, std::vector<ModelStates>& states);

// Remarks, once for each key, on plain values that training scripts saved otherwise in `b` than in `a`. `fate` says
// what becomes of them.
void RemarkOnClient(Inventory& inventory, const ModelStates& a, const ModelStates& b, std::string_view fate,
                    std::set<std::string>& known);

// Gives `to` the values of `from` that CheckEngineAlike() compares.
void TakeEngine(const ModelStates& from, ModelStates& to);

}  // namespace ucp
