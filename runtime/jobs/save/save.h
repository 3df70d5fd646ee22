// Saving the state of a running job as one call: described, planned, verified, written, committed.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/compile/compile_request.h"
#include "compiler/describe/request_texts.h"
#include "runtime/convert/conversion.h"
#include "runtime/engine/share_run.h"
#include "runtime/job_state/job_state.h"

namespace ucp {

struct SaveRequest {
  SourceTexts source;  // Without a path: how a spec is bound to the state, and what is left out of it.
  std::string target;  // A strategy: "dcp:style=titan", "deepspeed:dp=2,zero=1"
  TargetSettings settings;
};

struct SaveReport {
  PlannedRun run;
  ConversionOutcome outcome;
};

// As JSON: the keys of `ucprun convert --dry-run`, and those of `ucprun convert`.
// With several waves the former have `waves`, and `wave_bytes`: the most that a rank stages at a time.
std::string PlanText(const PlannedRun& run, const StagingWaves& waves);
std::string ReportText(const SaveReport& report, const ConversionOptions& destination);

// The plan, which is verified. `files` has the segments and the values of kJobFolder (job_items.h). Values are read,
// and the boxes that are taken as values; of the others nothing. Codes: as those of a conversion.
llvm::Expected<PlannedRun> PlanSave(ReadableFileSystem& files, const JoinedState& state, const SaveRequest& request,
                                    unsigned threads);

// Writes what the segments hold, by all ranks of `execution.ranks`. `destination.destination` appears complete, or not
// at all, and nothing is kept of a save that failed: its source is gone. `nodes`: as for Convert().
llvm::Expected<SaveReport> WriteSave(FileSystem& files, PlannedRun run, ConversionOptions destination,
                                     ExecutionOptions execution, FilesOfAllRanks* nodes = nullptr);

// Plans, and writes, in this process alone.
llvm::Expected<SaveReport> SaveState(FileSystem& files, const JoinedState& state, const SaveRequest& request,
                                     ConversionOptions destination, ExecutionOptions execution);

}  // namespace ucp
