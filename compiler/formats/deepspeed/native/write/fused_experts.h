// The experts of a target that DeepSpeed's AutoEP spreads (read/ranks/fused_experts.h has the picture). A released
// engine gives each of `ep` ranks equally many neighbours, independent of the ranks of the source. Below stage 3 each
// expert's weights are in a file of their own; at stage 3 there are the masters alone, and metadata says who has which.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Fails for degrees that AutoEP does not run on, even if a spec has them.
[[nodiscard]] llvm::Error CheckDegreesOfAutoEp(const TrainingState& training, const Degrees& degrees);

// Fails for targets that AutoEP does not run on, or that this version does not write; and for a job's configuration
// that has AutoEP where the source does not, or the other way round.
[[nodiscard]] llvm::Error CheckAutoEp(const TargetRequest& request, const EngineConfig* job,
                                      const WriteOptions& options);

// Returns the layers of the source's fused tensors, by the prefix of their names. Fails if one is not of AutoEP's form.
llvm::Expected<std::map<std::string, ExpertsOfLayer>> FindFusedLayers(const TargetRequest& request);

// Fails if the layout gives a rank other experts than the engine does.
[[nodiscard]] llvm::Error CheckFusedPlaces(const TargetRequest& request, std::int64_t ep, const ExpertsOfLayer& layer);

// Returns the entry `ds_autoep_layers` of the file of one of the ranks of a stage, which share its experts out.
llvm::Expected<pytorch::ValuePtr> AutoEpLayers(const TargetRequest& request, const WriteOptions& options,
                                               const ExpertsToWrite& experts, std::int64_t stage, std::int64_t number);

// `universal_checkpoint_info` with these layers; `info` is the source's, null if it has none.
pytorch::ValuePtr WithAutoEpLayers(const pytorch::ValuePtr& info, const pytorch::ValuePtr& layers);

// Returns the entry `ds_zero_partition_groups` of one partition's optimizer at stage 3: over which ranks each sub-group
// is cut.
pytorch::ValuePtr PartitionGroups(const std::vector<FlatGroupToWrite>& sub_groups, const ExpertsToWrite& experts,
                                  RankInFiles place);

// `layer_L_expert_G_mp_rank_XX_model_states.pt` of those of one layer's experts that some rank of the model-parallel
// rank XX has, which is at `coordinate`.
void AddFusedExpertFiles(const TargetRequest& request, const WriteOptions& options, const ExpertsToWrite& experts,
                         const ExpertsOfLayer& layer, const std::string& folder, const Coordinate& coordinate,
                         TargetFiles& target);

}  // namespace ucp::deepspeed
