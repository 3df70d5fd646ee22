// From a verified plan to a committed folder: stage, execute, commit. Both `convert` and `run` end here.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <optional>
#include <string>

#include "compiler/plan/plan.h"
#include "runtime/destination/run_destination.h"
#include "runtime/engine/share_run.h"
#include "runtime/engine/target_parts.h"
#include "runtime/executor/execute.h"
#include "runtime/peer_files/files_of_all_ranks.h"
#include "runtime/resources/io_of_run.h"
#include "runtime/storage/file_system.h"

namespace ucp {

struct ConversionOptions : DestinationOptions {
  double journal_seconds = 5;  // How often what is done is made durable.
  IoMode io = IoMode::kAuto;
};

// Callbacks, on every rank, while a conversion goes on.
struct ConversionHooks {
  std::function<void(DirectIo)> use_io = [](DirectIo) {};  // How `files` is to read and write from now on.
  std::function<void()> appeared = [] {};                  // The destination is there; what is left is to clean up.
  std::function<void()> committed = [] {};                 // It is complete, whatever goes wrong from now on.
  std::string why_no_trial;                                // Of ways to read and write; empty if there may be one.
};

struct ConversionOutcome {
  ExecutionReport report;            // Rank 0's.
  bool was_complete = false;         // With `resume`: nothing was left to do, and what follows is empty.
  std::optional<TargetParts> parts;  // Of the destination, if each node has one.
  IoOfRun means;
  std::string sync_choice;  // How the files were made durable, and why.
};

// Executes the plan of `run` over all ranks of `execution.ranks`, which must be set: each calls this with the same plan
// and options. `execution` says how much of the machine to use, who follows the progress, and what cancels. After an
// error nothing is under the destination's name that was not there before. `nodes`: the source, if each node sees only
// a part of it.
llvm::Expected<ConversionOutcome> Convert(FileSystem& files, const PlannedRun& run, const ConversionOptions& options,
                                          ExecutionOptions execution, const ConversionHooks& hooks,
                                          FilesOfAllRanks* nodes = nullptr);

}  // namespace ucp
