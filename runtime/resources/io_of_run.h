// Chooses how a conversion reads and writes large files, through the page cache or past it: as the user says, or by a
// trial (choose_io.h).
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
  // Returns sentences for --verbose on both choices; without a source, on writing alone.
  std::vector<std::string> Sentences(bool has_source) const;
  llvm::json::Object Json(bool has_source) const;
};

struct TargetToFill {
  std::string folder;  // Empty if this rank commits none.
  BytesToDo bytes;
};

// Chooses for reading and for writing. If `why_buffered` gives a reason against a trial, kAuto means the page cache.
// Fails with kIo as ChooseWriting() does.
llvm::Expected<IoOfRun> ChooseIo(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                 const TargetToFill& target, IoMode wanted, const std::string& why_buffered,
                                 const ExecutionOptions& execution);

// Returns the number of files that an execution may have open: past the page cache every file is opened twice. Fails
// with kUsage if this process may not open so many.
llvm::Expected<OpenFileShares> OpenFilesBy(DirectIo means, unsigned threads);

}  // namespace ucp
