// The kinds of optimizers that a checkpoint can hold, a function each. It adds a shard with the master and the states
// of every trained parameter, and says which parameter is in which group.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_groups.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"
#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"
#include "compiler/formats/format.h"
#include "compiler/formats/source_archives.h"

namespace ucp::deepspeed {

// The inputs for reading the optimizer, and the results that it adds to.
struct OptimizerContext {
  SourceArchives& archives;
  const CheckpointFiles& files;
  const std::string& folder;
  const Degrees& degrees;
  const Experts& experts;
  const FusedExperts& fused_experts;
  std::int64_t partitions = 1;
  const std::vector<ModelStates>& states;  // By model-parallel rank.
  Checkpoint& checkpoint;
  FamilyState& state;  // The checkpoint's, before it has it.

  Storage& storage() const { return checkpoint.inventory.storage; }

  // Returns how many tensor-parallel ranks share experts out together, and where an expert rank stands (experts.h).
  std::int64_t tensor_ranks() const {
    return fused_experts.any() ? fused_experts.tensor_ranks() : experts.tensor_ranks();
  }
  Coordinate PlaceOfExperts(std::int64_t mp, std::int64_t expert_rank) const {
    return fused_experts.any() ? fused_experts.PlaceOf(mp, expert_rank) : experts.PlaceOf(mp, expert_rank);
  }

  // Does the same where the files of several tensor-parallel ranks have copies of the parts of one expert rank.
  Coordinate PlaceOfExpertsIn(std::int64_t mp, std::int64_t expert_rank) const {
    Coordinate place = PlaceOfExperts(mp, expert_rank);
    if (fused_experts.any()) place.at["tp"] = degrees.RankOf(mp).At("tp");
    return place;
  }

  bool IsExpert(const std::string& name) const { return fused_experts.Holds(name) || IsExpertName(name); }
};

// Stages 1 and 2 and BF16_Optimizer: a group is one long vector, cut over the partitions (zero12_groups.h).
llvm::Expected<std::vector<RankGroups>> AddFlatOptimizer(const OptimizerContext& context);

// Stage 3: every parameter is cut over the partitions (zero3_states.h).
llvm::Expected<std::vector<RankGroups>> AddPartitionedOptimizer(const OptimizerContext& context);

// Without ZeRO: nothing is cut (zero0_states.h). `optimizers` by model-parallel rank; call after NameParameters().
llvm::Expected<std::vector<RankGroups>> AddWholeOptimizer(const OptimizerContext& context,
                                                          std::vector<WholeOptimizer>& optimizers);

// Does the same for one rank, which has the experts of `expert_rank`; `states` has the names of `optimizer`, and the
// module.
llvm::Expected<RankGroups> AddWholeRank(const OptimizerContext& context, std::int64_t mp, const ModelStates& states,
                                        WholeOptimizer& optimizer, std::int64_t expert_rank = 0);

}  // namespace ucp::deepspeed
