// The tensors of a universal folder that are not trained: frozen parameters and buffers, in the model-states files.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/source_archives.h"
#include "compiler/layout/inventory.h"

namespace ucp::universal {

// Adds a shard for each. This project writes them once; in DeepSpeed's folder every rank has its own, and nothing says
// how they are cut: all but buffers with equal copies are refused then (kUnsupported).
[[nodiscard]] llvm::Error AddModuleTensors(SourceArchives& archives, const std::vector<ModelStates>& states,
                                           const std::function<bool(const std::string&)>& is_trained,
                                           Inventory& inventory);

}  // namespace ucp::universal
