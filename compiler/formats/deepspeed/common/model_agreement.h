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

// Compares what the engine counts and restores, the iteration that Megatron-DeepSpeed counts, and
// `universal_checkpoint_info`, of which no rank is believed over another. `a` is the one that counts.
[[nodiscard]] llvm::Error CheckEngineAlike(Inventory& inventory, const ModelStates& a, const ModelStates& b);

// All of them, by model-parallel rank. Returns which one counts; adds the facts that it states, those that other ranks
// contradict as disputed, and remarks on what training scripts saved otherwise on each rank. All then say what the one
// that counts says of what CheckEngineAlike() compares.
llvm::Expected<std::size_t> JoinModelStates(Inventory& inventory, std::vector<ModelStates>& states);

// Remarks, once for each key, on plain values that training scripts saved otherwise in `b` than in `a`. `fate` says
// what becomes of them.
void RemarkOnClient(Inventory& inventory, const ModelStates& a, const ModelStates& b, std::string_view fate,
                    std::set<std::string>& known);

// Makes `to` say what `from` says of what CheckEngineAlike() compares.
void TakeEngine(const ModelStates& from, ModelStates& to);

}  // namespace ucp
