// The optimizer's files of one model-parallel rank at stage 3: of every parameter, each partition has its part
// (zero3_states.h). Of experts that AutoEP spreads, those partitions that have the same ones; tensor-parallel
// ranks that share these out are written together.
#pragma once

#include <vector>

#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"
#include "compiler/formats/deepspeed/native/write/zero12_optimizer.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Adds the files of ExpertsToWrite::tensor_ranks() ranks, the shards of the parameters' states and the zeros of the
// padding. Paths are below `folder`.
void AddPartitionedOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                                  const std::string& folder, const std::vector<RankToWrite>& ranks,
                                  const ExpertsToWrite& experts, TargetFiles& target);

// One part for each partition, of a record of theirs that holds parts of `parameters` behind each other. Zeros where a
// part is short.
Buffer PartitionedBuffer(DType dtype, const std::vector<RecordId>& records, std::span<const PlacedParameter> parameters,
                         TargetFiles& target);

}  // namespace ucp::deepspeed
