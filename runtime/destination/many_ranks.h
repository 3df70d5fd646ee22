// Messages between the ranks of one run: rank 0 reads headers, plans and commits; all do the work.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/commit/ranks_folder.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {

// Returns the files beside a checkpoint, as rank 0 found them.
llvm::Expected<std::optional<FoundManifest>> ShareManifest(Communicator& ranks,
                                                           llvm::Expected<std::optional<FoundManifest>> of_first_rank);

// Returns the files that one of several ranks is to check, of about as many bytes as any other's: those of all, one
// after the other, are the list.
std::vector<ManifestFile> FilesToCheck(const std::vector<ManifestFile>& files, int rank, int ranks);

// Returns those of rank 0, then those of rank 1, and so on, on every rank.
llvm::Expected<std::vector<std::string>> GatherTexts(Communicator& ranks, const std::vector<std::string>& mine);

// Where the ranks of a run work, and what their journals' entries begin with. `folder` is empty if all was done before.
struct StagedRun {
  StagedFolder where;
  std::string entry_head;
};

// Returns the runs by rank; those of a destination that all see, or of one part, go by the one that its first rank
// gives.
llvm::Expected<std::vector<StagedRun>> ShareStaged(Communicator& ranks, const StagedRun& mine);

}  // namespace ucp
