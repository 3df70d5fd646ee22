// By what means a conversion reads and writes large files: as the user says, or as a trial does (choose_means.h).
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/execute.h"
#include "runtime/storage/choose_io.h"
#include "runtime/storage/direct_io_files.h"
#include "runtime/storage/file_system.h"

namespace ucp {

llvm::json::Object IoChoiceJson(const IoChoice& choice);

struct IoOfRun {
  IoChoice reading;
  IoChoice writing;

  DirectIo means() const { return {reading.directly, writing.directly}; }
  // Without a source there is nothing to say of reading.
  std::vector<std::string> Sentences(bool has_source) const;
  llvm::json::Object Json(bool has_source) const;
};

struct TargetToFill {
  std::string folder;  // Empty if this rank commits none.
  BytesToDo bytes;
};

// If `why_buffered` says why there can be no trial, kAuto is through the page cache. kIo: see ChooseWriting().
llvm::Expected<IoOfRun> ChooseIo(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                 const TargetToFill& target, IoMode wanted, const std::string& why_buffered,
                                 const ExecutionOptions& execution);

// Returns the files that an execution by these means may have open: past the page cache every file is opened twice.
// kUsage if this process may not have so many.
llvm::Expected<OpenFileShares> OpenFilesBy(DirectIo means, unsigned threads);

}  // namespace ucp
