// Gives the plan of rank 0 to all ranks: so each source file's header is read once for all of them.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/seen_files.h"
#include "compiler/layout/checkpoint_identity.h"
#include "compiler/plan/plan.h"
#include "runtime/comm/communicator.h"

namespace ucp {

struct PlannedRun {
  Plan plan;
  std::string source_folder;
  std::vector<FileVersion> source_versions = {};  // By FileId of the source; what the headers were read of.
  std::string plan_hash = {};                     // HashOfPlan(), if it was made with the plan; then at rank 0 alone.
  CheckpointIdentity source = {};                 // At rank 0 alone; without a folder where there is no checkpoint.
};

// Returns the versions of all files that the plan reads.
std::vector<FileVersion> VersionsOf(const SeenFiles& seen, const Plan& plan, const std::string& source_folder);

// Rank 0 gives its result, or its error; the others give anything. The plan was verified by rank 0.
llvm::Expected<PlannedRun> ShareRun(Communicator& ranks, llvm::Expected<PlannedRun> of_first_rank);

}  // namespace ucp
