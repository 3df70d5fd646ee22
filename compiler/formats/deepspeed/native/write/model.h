// The files that hold the weights that the model computes with: one of model states for each model-parallel rank (at
// stage 3 for each of its partitions), and in a pipeline one for each layer and tensor rank.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// A pipeline's weights are in layer files, unless it has experts: the engine then saves a stage's module in one.
bool HasLayerFiles(const TargetRequest& request, const ExpertsToWrite& experts);

// Adds `mp_rank_XX_model_states.pt` of one rank, with the tensors of its module unless they are in layer files or in
// those of experts, and with its optimizer if there is no ZeRO. At stage 3, a file for each partition. `groups` are
// those of the first expert rank, which saves it.
[[nodiscard]] llvm::Error AddModelStates(const TargetRequest& request, const WriteOptions& options,
                                         const Carried& carried, const ExpertsToWrite& experts,
                                         const std::string& folder, const Coordinate& coordinate,
                                         const std::vector<FlatGroupToWrite>& groups, TargetFiles& target);

// Adds the layer files of a pipeline. Fails if a tensor is in none of the layers that the source has files of.
[[nodiscard]] llvm::Error AddLayerFiles(const TargetRequest& request, const WriteOptions& options,
                                        const std::string& folder, TargetFiles& target);

}  // namespace ucp::deepspeed
