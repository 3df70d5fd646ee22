// From a verified plan to a committed folder: stage, execute, commit. Both `convert` and `run` end here.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <CLI/App.hpp>

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/command_line/run_watch.h"
#include "runtime/command_line/watched_ranks.h"
#include "runtime/convert/means_of_run.h"
#include "runtime/convert/node_local.h"
#include "runtime/exchange/files_of_all_ranks.h"
#include "runtime/executor/execute.h"
#include "runtime/executor/share_run.h"
#include "runtime/executor/target_parts.h"
#include "runtime/io/file_system.h"

namespace ucp {

// How much of the machine to use, and how to speak of it.
struct WorkOptions {
  bool json = false;
  bool ignore_crc = false;
  unsigned threads = 0;  // 0: as many as the process may use.
  std::string memory = "1GiB";
  unsigned rank_timeout = kRankPatience;  // Seconds.
};
void AddWorkOptions(CLI::App& command, WorkOptions& options);
void AddThreadsOption(CLI::App& command, WorkOptions& options);                     // --threads alone.
void AddIgnoreCrcOption(CLI::App& command, WorkOptions& options);                   // Where archives are read.
llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options);  // Interrupts cancel.

struct ConversionOptions : WorkOptions {
  std::string destination;
  bool force = false;
  bool resume = false;
  double journal_seconds = 5;
  WantedMeans io = WantedMeans::kAuto;
  bool has_source = true;  // Otherwise what is read is computed, and nobody hears of it.
  NodeLocal node_local;    // What each node sees a part of.
  WatchOptions watch;
};
void AddDestination(CLI::App& command, ConversionOptions& options);  // OUT
void AddConversionOptions(CLI::App& command, ConversionOptions& options);

struct ConversionOutcome {
  ExecutionReport report;
  bool was_complete = false;         // With `resume`: nothing was left to do.
  std::optional<TargetParts> parts;  // Of the destination, if each node has one.
  MeansOfRun means;
  std::vector<std::string> choices;      // What was chosen, and why, a sentence each.
  std::uint64_t bytes_from_storage = 0;  // Of what this process read until it was done.
};

// Executes the plan of `run` over all `ranks`: each calls this with the same one, and rank 0 has the outcome. After an
// error nothing is under the destination's name that was not there before. `nodes`: the source, if each node sees only
// a part of it.
llvm::Expected<ConversionOutcome> Convert(FileSystem& files, const PlannedRun& run, const ConversionOptions& options,
                                          RunWatch& watch, Communicator& ranks, FilesOfAllRanks* nodes = nullptr);

// How many threads a rank has.
unsigned ThreadsOf(const WorkOptions& options);

// The whole of a command that converts: `work` between a watch's beginning and its end. Shows the error, once for all
// ranks; the exit code.
int RunWatched(FileSystem& files, const ConversionOptions& options,
               llvm::function_ref<llvm::Error(RunWatch&, Communicator&)> work);

}  // namespace ucp
