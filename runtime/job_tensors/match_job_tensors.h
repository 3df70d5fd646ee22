// Matches the tensors that ranks hold with those of a checkpoint.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/layout/target.h"
#include "runtime/job_tensors/job_tensors.h"

namespace ucp {

// States of a tensor of the checkpoint that nobody holds.
struct NotLoaded {
  std::string tensor;
  std::vector<std::string> states;
};

// Gives every held tensor the name and the state that the source has for it. Fails as CompileForJob() says; `tensors`
// are those of the source.
[[nodiscard]] llvm::Error MatchJobTensors(const Layout& layout, std::span<const LogicalTensor> tensors,
                                          std::span<JobTensorsOfRank> ranks);

// Returns the states of the source that nobody holds.
std::vector<NotLoaded> FindNotLoaded(std::span<const LogicalTensor> tensors, std::span<const JobTensorsOfRank> ranks);

// Returns the source's names for those of these that it knows.
std::set<std::string> KeptTensors(const Layout& layout, std::span<const std::string> names);

// Sentences about states that ranks hold in another dtype than the source. Call after MatchJobTensors().
std::vector<std::string> CastRemarks(std::span<const LogicalTensor> tensors, std::span<const JobTensorsOfRank> ranks);

// Returns the source without the parts that no rank holds: tensors of its layouts, and shards and states of its
// inventory. Weights stay beside their masters, to be compared with them.
BoundSource KeepHeld(std::span<const JobTensorsOfRank> ranks, BoundSource source);

}  // namespace ucp
