// By what means a conversion reads and writes large files: as the user says, or as a trial does (choose_means.h).
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <CLI/App.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/executor/execute.h"
#include "runtime/io/choose_means.h"
#include "runtime/io/file_system.h"
#include "runtime/io/files_by_means.h"

namespace ucp {

enum class WantedMeans { kAuto, kBuffered, kDirect };
void AddIoOption(CLI::App& command, WantedMeans& wanted);

struct MeansOfRun {
  ChosenWay reading;
  ChosenWay writing;

  Means means() const { return {reading.directly, writing.directly}; }
  std::vector<std::string> Sentences() const;
  llvm::json::Object Json() const;
};

// `target_folder` is empty if this rank commits none. `is_bounded`: a bound on the bandwidth is to be kept, which a
// trial would not. Files that are opened are twice as many past the page cache; kUsage if this process may not have so
// many and the user wants it. kIo: see ChooseWriting().
llvm::Expected<MeansOfRun> ChooseMeans(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                       const std::string& target_folder, WantedMeans wanted, bool is_bounded,
                                       const ExecutionOptions& execution);

// What an execution by these means may have open.
llvm::Expected<OpenFileShares> OpenFilesBy(Means means, unsigned threads);

}  // namespace ucp
