// The optimizer's files of one model-parallel rank: each partition's part of the flat groups, and what the engine keeps
// beside it. Tensor-parallel ranks that share whole experts out are written together: what they have of the same
// experts is one vector.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/layout/target.h"
#include "runtime/formats/deepspeed/write/carried.h"
#include "runtime/formats/deepspeed/write/experts.h"
#include "runtime/formats/deepspeed/write/groups.h"

namespace ucp::deepspeed {

// One tensor-parallel rank. `groups` by expert rank; there is one without experts.
struct RankToWrite {
  Coordinate coordinate;
  std::vector<std::vector<FlatGroupToWrite>> groups;
};

// Adds the files of ExpertsToWrite::tensor_ranks() ranks, the shards of the parameters' states and the zeros of the
// padding. Paths are below `folder`.
void AddOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                       const std::string& folder, const std::vector<RankToWrite>& ranks, const ExpertsToWrite& experts,
                       TargetFiles& target);

}  // namespace ucp::deepspeed
