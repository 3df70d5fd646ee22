// From a verified plan to a committed folder: stage, execute, commit, report. Both `convert` and `run` end here.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <CLI/App.hpp>

#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/driver/run_watch.h"
#include "runtime/executor/execute.h"
#include "runtime/io/file_system.h"

namespace ucp {

// How much of the machine to use, and how to speak of it.
struct WorkOptions {
  bool json = false;
  bool ignore_crc = false;
  unsigned threads = 0;  // 0: as many as the process may use.
  std::string memory = "1GiB";
};
void AddWorkOptions(CLI::App& command, WorkOptions& options);
void AddThreadsOption(CLI::App& command, WorkOptions& options);                     // --threads alone.
llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options);  // Interrupts cancel.

struct ConversionOptions : WorkOptions {
  std::string destination;
  bool force = false;
  WatchOptions watch;
};
void AddConversionOptions(CLI::App& command, ConversionOptions& options);

// Executes `plan` on the files in `source_folder`. After an error nothing is under the destination's name that was not
// there before.
llvm::Expected<ExecutionReport> Convert(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                        const ConversionOptions& options, RunWatch& watch);

// For people, and as one JSON object; for those who follow events, as the last one.
void PrintReport(const Plan& plan, const ExecutionReport& report, const ConversionOptions& options, RunWatch& watch);

// The whole of a command that converts: `work` between a watch's beginning and its end. Shows the error; the exit code.
int RunWatched(FileSystem& files, const ConversionOptions& options, llvm::function_ref<llvm::Error(RunWatch&)> work);

}  // namespace ucp
