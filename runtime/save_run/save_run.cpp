#include "runtime/save_run/save_run.h"

#include <memory>
#include <string>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/commit/commit.h"
#include "runtime/convert/conversion.h"
#include "runtime/engine/share_run.h"
#include "runtime/peer_files/files_of_all_ranks.h"

namespace ucp {
namespace {

// Boxes that are taken as values lie anywhere, so the plan is made with the files of all.
llvm::Expected<PlannedRun> PlanTogether(FilesOfAllRanks& nodes, const JoinedState* state, const SaveRequest& request,
                                        const ExecutionOptions& execution) {
  Communicator& writers = *execution.ranks;
  if (writers.rank() != 0) return ShareRun(writers, PlannedRun());
  return ShareRun(writers, PlanSave(nodes.files(), *state, request, execution.threads));
}

bool IsThere(FileSystem& files, const std::string& path) {
  llvm::Expected<PathKind> kind = files.Kind(path);
  const bool is_there = !kind || *kind != PathKind::kMissing;  // One that cannot be looked at is not removed.
  llvm::consumeError(kind.takeError());
  return is_there;
}

}  // namespace

llvm::Expected<SaveReport> SaveTogether(FileSystem& files, const JoinedState* state, const SaveRequest& request,
                                        ConversionOptions destination, ExecutionOptions execution) {
  if (execution.ranks->size() == 1) return SaveState(files, *state, request, std::move(destination), execution);
  execution.ranks->ForgetStop();  // Of an earlier save, which all ended together.
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                       FilesOfAllRanks::Start(*execution.ranks, files, /*reads_headers=*/false));
  UCP_ASSIGN_OR_RETURN(PlannedRun run, PlanTogether(*nodes, state, request, execution));
  return WriteSave(files, std::move(run), std::move(destination), std::move(execution), nodes.get());
}

void RemoveRemains(FileSystem& files, const std::string& path, bool is_in_parts) {
  llvm::consumeError(files.RemoveTree(BesideDestination(path, "node")));  // Of CheckFoldersDiffer().
  const bool has_folder =
      IsThere(files, BesideDestination(path, "partial")) || IsThere(files, BesideDestination(path, "old"));
  if (is_in_parts && has_folder && IsThere(files, path)) return;
  StagingOptions options;
  options.force = true;
  llvm::Expected<Staging> staging = Staging::Begin(files, path, options);
  llvm::consumeError(staging ? staging->Abandon() : staging.takeError());  // Only room on the disk is lost.
}

}  // namespace ucp
