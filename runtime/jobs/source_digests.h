// The digests of a checkpoint, from its data: all of it is read as for a conversion, checksums and replicas checked,
// and nothing is written.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/phases/source_phase.h"
#include "compiler/planner/planner.h"
#include "runtime/difference/pair_states.h"
#include "runtime/exchange/files_of_all_ranks.h"
#include "runtime/executor/execute.h"
#include "runtime/executor/share_run.h"

namespace ucp {

// A conversion to whole tensors, each state a file of its own (whole_states.h), of a checkpoint that it describes and
// binds. `phase` is filled as far as it comes, for diagnostics.
llvm::Expected<Plan> PlanWholeStates(ReadableFileSystem& files, const SourceRequest& request, SourcePhase& phase,
                                     ReplicaPolicy replicas = ReplicaPolicy::kCompare);

// The same for all ranks of `options`, made by rank 0; its `phase` alone is filled. If each node sees only a part of
// the source, `files` are those of all.
llvm::Expected<PlannedRun> ShareWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, SourcePhase& phase,
                                            FilesOfAllRanks* nodes = nullptr);

// What to read at `path`, asked for as `request` says. A spec is for what ranks cut: a folder of whole tensors is taken
// as it is, since its metadata may not even say what the spec asks for.
llvm::Expected<SourceRequest> RequestAt(ReadableFileSystem& files, SourceRequest request, const std::string& path);

// The tensors of a plan that PlanWholeStates() made of this checkpoint.
std::vector<WholeTensor> WholeTensorsOf(const Plan& plan, const Checkpoint& checkpoint);

// A checkpoint that was read whole: how, and ExecutionReport::digests, which are those of the logical tensors.
struct DigestedSource {
  PlannedRun run;
  std::vector<WholeTensor> tensors;  // Rank 0 alone knows which of them are the model's.
  ExecutionReport report;            // Rank 0's.
};
llvm::Expected<DigestedSource> DigestSource(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, SourcePhase& phase,
                                            FilesOfAllRanks* nodes = nullptr);

}  // namespace ucp
