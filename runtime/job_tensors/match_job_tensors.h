// Matches the tensors that ranks hold with those of a checkpoint.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/describe/other_layout.h"
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

// States by the names of tensors.
using StatesOfTensors = std::map<std::string, std::set<std::string>>;

// Returns those that somebody holds.
StatesOfTensors HeldStates(std::span<const JobTensorsOfRank> ranks);

// Returns the states of the source that the tensors of another layout are put together of, where these states of them
// are held. Fails with kUnsupported where states of a source's tensor go into some of its tensors of the other layout
// alone.
llvm::Expected<StatesOfTensors> SourceStates(const StatesOfTensors& held, const OtherLayout& other);

// Returns the source with these states alone: in the tensors of its layouts, and in the shards of its inventory.
// Weights stay beside their masters, to be compared with them.
BoundSource KeepStates(StatesOfTensors wanted, BoundSource source);

}  // namespace ucp
