// A conversion as one call: planned, verified, executed, committed.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

#include "compiler/compile/compile_request.h"
#include "compiler/describe/request_texts.h"
#include "compiler/files/readable_file_system.h"
#include "runtime/convert/conversion.h"
#include "runtime/engine/share_run.h"
#include "runtime/jobs/job_hooks.h"

namespace ucp {

struct ConvertRequest {
  SourceTexts source;
  std::string target;  // A strategy: "universal", "deepspeed:tp=2,dp=4,zero=1"
  TargetSettings target_options;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
};

struct PlanningOptions {
  unsigned readers = 1;  // Threads that read headers at the same time.
  unsigned threads = 1;
  bool hashes_plan = true;      // Not needed where nothing is run.
  PhaseClock* clock = nullptr;  // Told of the phases; may be null.
};

// Returns the plan, which is verified. `hooks.bound` is called once a spec is bound, or is found to be wrong.
llvm::Expected<PlannedRun> PlanConversion(ReadableFileSystem& source, const ConvertRequest& request,
                                          const PlanningOptions& options, const JobHooks& hooks);

struct ConvertReport {
  PlannedRun run;
  ConversionOutcome outcome;
};

// Plans and runs the conversion, in this process alone. `destination.destination` appears complete, or not at all.
// Fails with the codes of the programs (docs/programs.md).
llvm::Expected<ConvertReport> ConvertCheckpoint(const ConvertRequest& request, const ConversionOptions& destination,
                                                ExecutionOptions execution, const JobHooks& hooks = {});

// Returns the decisions of --prefer-rank: those on single numbers were made with the plan, those on elements when they
// were read.
std::vector<RankDecision> AllDecisions(const Plan& plan, const ExecutionReport& report);

// Returns the object that `ucprun convert --json` prints, without the entries that only a command knows.
llvm::json::Object ConversionJson(const PlannedRun& run, const ConversionOutcome& outcome,
                                  const ConversionOptions& options);

}  // namespace ucp
