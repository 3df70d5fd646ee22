// A command that a launcher started several times: rank 0 reads headers, plans, prints and commits; all do the work.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "compiler/plan/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/driver/run_watch.h"
#include "runtime/io/ranks_folder.h"

namespace ucp {

struct PlannedRun {
  Plan plan;
  std::string source_folder;
};

// Rank 0 gives what it made, or why it could not; so each source file's header is read once for all ranks. The plan was
// verified by rank 0.
llvm::Expected<PlannedRun> ShareRun(Communicator& ranks, llvm::Expected<PlannedRun> of_first_rank);

// Where the ranks of a run work, and what their journals' entries begin with. `folder` is empty if all was done before.
struct StagedRun {
  StagedFolder where;
  std::string entry_head;
};

// Rank 0 gives it.
llvm::Expected<StagedRun> ShareStaged(Communicator& ranks, const StagedRun& of_first_rank);

// Rank 0 tells for all; the others keep to the bound on bandwidth, which is each rank's own.
llvm::Expected<std::unique_ptr<RunWatch>> BeginWatch(FileSystem& files, const WatchOptions& options,
                                                     Communicator& ranks);

// The exit code for an error that all ranks have; one of them says it.
int EndWith(llvm::Error error, bool json);

}  // namespace ucp
