// On which stage each layer of a pipeline is, in a checkpoint without ZeRO: nothing in it says so. Stages are runs of
// layers, and the optimizer of a stage steps as many elements as the layers of its run have. A tied module, whose name
// is in no layer file, or a frozen parameter makes the numbers differ, and the checkpoint is refused.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"

namespace ucp::deepspeed {

// Moves the tensors and extras of each layer to the module of its stage; `optimizers` by model-parallel rank. Call
// after ReadLayerFiles().
[[nodiscard]] llvm::Error FindStagesOfLayers(const std::vector<WholeOptimizer>& optimizers, const std::string& folder,
                                             const Degrees& degrees, std::vector<ModelStates>& states);

}  // namespace ucp::deepspeed
