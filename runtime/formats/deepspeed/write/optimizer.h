// The optimizer's files of one model-parallel rank: each partition's part of the flat groups, and what the engine keeps
// beside it.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/layout/target.h"
#include "runtime/formats/deepspeed/write/carried.h"
#include "runtime/formats/deepspeed/write/experts.h"
#include "runtime/formats/deepspeed/write/groups.h"

namespace ucp::deepspeed {

// Adds the files, the shards of the parameters' states and the zeros of the padding. Paths are below `folder`. `groups`
// by expert rank; there is one without experts.
void AddOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                       const std::string& folder, const Coordinate& coordinate, const ExpertsToWrite& experts,
                       const std::vector<std::vector<FlatGroupToWrite>>& groups, TargetFiles& target);

}  // namespace ucp::deepspeed
