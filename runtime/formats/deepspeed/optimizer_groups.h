// The optimizer's groups over all pipeline stages: each stage has its own list, and a group without a parameter on a
// stage is missing there.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/formats/training_state.h"

namespace ucp::deepspeed {

// The groups of one model-parallel rank, with the file that says so.
struct RankGroups {
  std::string path;
  std::vector<OptimizerGroup> groups;
};

// Groups of different ranks are one if their hyper-parameters are equal and their order allows it. Fails if they have
// different steps, or a parameter is in groups that differ (both files, both values). Steps are values of `training`.
llvm::Expected<std::vector<OptimizerGroup>> MergeGroups(const TrainingState& training,
                                                        const std::vector<RankGroups>& ranks);

}  // namespace ucp::deepspeed
