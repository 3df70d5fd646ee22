// The digests of a checkpoint, from its data: all of it is read as for a conversion, checksums and replicas checked,
// and nothing is written.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile/whole_states.h"
#include "runtime/difference/pair_states.h"
#include "runtime/engine/share_run.h"
#include "runtime/executor/execute.h"
#include "runtime/peer_files/files_of_all_ranks.h"

namespace ucp {

// A plan that reads all of a checkpoint (whole_states.h), for all ranks of `options`, made by rank 0. If each node sees
// only a part of the source, `files` are those of all.
struct WholeStatesRun {
  PlannedRun run;
  std::vector<WholeTensor> tensors;  // Rank 0 alone knows which of them are the model's.
  TrainingOfCheckpoint training;     // At rank 0.
  std::string layout;                // At rank 0: that the checkpoint has, of the spec's model; empty without one.
  std::map<std::string, std::int64_t> offsets;  // At rank 0: the spec's for `tensors`, by name; 0 is left out.
};
llvm::Expected<WholeStatesRun> ShareWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                                const ExecutionOptions& options, FilesOfAllRanks* nodes = nullptr);

// Returns the request for `path`, made from `request`. A spec is for tensors that ranks cut: a folder of whole tensors
// is taken as it is, since its metadata may not even say what the spec asks for.
llvm::Expected<SourceRequest> RequestAt(ReadableFileSystem& files, SourceRequest request, const std::string& path);

// Returns the tensors of a plan that CompileWholeStates() made of this checkpoint.
std::vector<WholeTensor> WholeTensorsOf(const Plan& plan, const Checkpoint& checkpoint);

// A checkpoint that was read whole: how, and EngineReport::digests, which are those of the logical tensors.
struct DigestedSource {
  PlannedRun run;
  std::vector<WholeTensor> tensors;  // As above, and so are the next.
  TrainingOfCheckpoint training;
  std::string layout;
  std::map<std::string, std::int64_t> offsets;
  EngineReport report;  // Rank 0's.
};
llvm::Expected<DigestedSource> DigestSource(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, FilesOfAllRanks* nodes = nullptr);

}  // namespace ucp
