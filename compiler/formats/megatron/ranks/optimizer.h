// The optimizer in the files of one model-parallel rank. One that is not distributed numbers its parameters, group
// after group. A distributed one has joined the buffers of all ranks that share its work into one vector for each
// state, in which its parameters stand as in buckets without padding. With expert parallelism there are two, since
// other ranks have copies of experts than of the rest.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/megatron/ranks/join.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/source_archives.h"
#include "compiler/formats/training_state.h"

namespace ucp::megatron {

struct RankOptimizer {
  std::vector<OptimizerGroup> groups;  // Without their parameters.
  std::string unread;                  // Why it is not read, as a sentence; empty if it is.
  std::string without_step;            // On a parameter whose state has no step, a sentence; empty: all have one.
};

// The places that the functions below enter things into, and those that they look things up in.
struct OptimizerContext {
  SourceArchives& archives;
  Storage& storage;
  const TrainingState& training;
  const Arguments& arguments;
  std::int64_t last_stage = 0;
};

// `entry`: that of a rank's file. Returns that of the rest and that of experts, where it is a list of them.
std::vector<pytorch::ValuePtr> OptimizersIn(const pytorch::ValuePtr& entry);

// Both fill the states of the parts of `rank`, which has its tensors. They fail for damaged files.

// `optimizers`: of the rank's file, one or two. Fails (kBadData) for parameters at several steps.
llvm::Expected<RankOptimizer> ReadPlainOptimizers(const OptimizerContext& context, const SourceArchive& file,
                                                  const std::vector<pytorch::ValuePtr>& optimizers, RankOfModel& rank);

// `file`: the rank's own, which has `optimizers`; `states` holds the vectors. Fails (kBadData) for states that the rank
// does not save.
llvm::Expected<RankOptimizer> ReadDistributedOptimizers(const OptimizerContext& context, const SourceArchive& file,
                                                        const std::vector<pytorch::ValuePtr>& optimizers,
                                                        const SourceArchive& states, RankOfModel& rank);

}  // namespace ucp::megatron
