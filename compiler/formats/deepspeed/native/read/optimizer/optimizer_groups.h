// The optimizer's groups over all pipeline stages: each stage has its own list, and a group without a parameter on a
// stage is missing there.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/training_state.h"

namespace ucp::deepspeed {

// The optimizer of one model-parallel rank, by the file that counts among those of its partitions.
struct RankGroups {
  Speaker speaker;
  std::vector<OptimizerGroup> groups = {};
  std::vector<pytorch::Entry> others = {};    // Entries for all groups together: TrainingState::optimizer.
  std::string path = "optimizer_state_dict";  // In the speaker's file, to the others;
  std::string groups_path = "param_groups";   // and behind that to the groups.
};

// Fills `groups` and `optimizer` of the training state, whose values the steps are. Groups of different stages are one
// if their hyper-parameters are equal and their order allows it. Values on which ranks must agree are compared: steps,
// the loss scale, versions, and the hyper-parameters of tensor-parallel ranks, which have the same groups. Fails as
// CheckAlike() does, and if a parameter is in groups that differ (both files, both values).
[[nodiscard]] llvm::Error MergeOptimizers(Inventory& inventory, TrainingState& training, std::vector<RankGroups> ranks);

}  // namespace ucp::deepspeed
