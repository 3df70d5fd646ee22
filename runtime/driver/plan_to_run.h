// Makes the plan to run from a plan file. The file comes from outside, so this version plans again by the request in
// the file, of the checkpoint at hand, and the file must hold the same plan.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/phase_clock.h"
#include "runtime/engine/share_run.h"

namespace ucp {

struct PlanToRun {
  std::string path;             // Of the plan file.
  std::string source;           // The checkpoint.
  bool is_trusted = false;      // --trust-plan: what is run is the file's plan, proved, and of these source files.
  unsigned readers = 1;         // Threads that may read headers at the same time,
  unsigned threads = 1;         // and that may plan.
  PhaseClock* clock = nullptr;  // Told of the phases; may be null.
};

// `files` has the plan file, `source` the checkpoint. Fails with kBadData, naming the difference, for a plan that is
// not sound, not of these files, not of a checkpoint, or another one than is made again.
llvm::Expected<PlannedRun> PreparePlan(ReadableFileSystem& files, ReadableFileSystem& source, const PlanToRun& request);

}  // namespace ucp
