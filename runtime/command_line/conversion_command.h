// The common parts of the commands that convert: their options, what follows the run, and how it ends.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/command_line/run_watch.h"
#include "runtime/command_line/work_options.h"
#include "runtime/convert/conversion.h"
#include "runtime/engine/share_run.h"
#include "runtime/peer_files/files_of_all_ranks.h"
#include "runtime/storage/file_system.h"

namespace ucp {

struct ConversionCommand : WorkOptions, ConversionOptions {
  WatchOptions watch;
};
void AddDestination(CLI::App& command, ConversionCommand& options);  // OUT
void AddConversionOptions(CLI::App& command, ConversionCommand& options);

// The whole of a command that converts: `work` between a watch's beginning and its end. Shows the error, once for all
// ranks; the exit code.
int RunWatched(FileSystem& files, const ConversionCommand& options,
               llvm::function_ref<llvm::Error(RunWatch&, Communicator&)> work);

struct WatchedOutcome : ConversionOutcome {
  // Rank 0's: what was chosen, and why, a sentence each; and on the bytes that this process read until it was done.
  std::vector<std::string> choices;
  std::uint64_t bytes_from_storage = 0;
};

// Convert(), followed by `watch`.
llvm::Expected<WatchedOutcome> ConvertWatched(FileSystem& files, const PlannedRun& run,
                                              const ConversionCommand& options, RunWatch& watch, Communicator& ranks,
                                              FilesOfAllRanks* nodes = nullptr);

}  // namespace ucp
