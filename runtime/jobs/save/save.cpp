#include "runtime/jobs/save/save.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <utility>

#include "compiler/compile/compile.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "runtime/job_state/job_items.h"
#include "runtime/jobs/convert/convert.h"

namespace ucp {
namespace {

// Of the source of a save there are not any files to copy.
std::string TextOf(llvm::json::Object object) {
  object.erase("keeps_cuts");
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::json::Value(std::move(object));
  return text;
}

}  // namespace

std::string PlanText(const PlannedRun& run, const StagingWaves& waves) {
  llvm::json::Object report = PlanReportJson(run.plan);
  if (waves.count > 1) {
    report["waves"] = waves.count;
    report["wave_bytes"] = waves.window;
  }
  return TextOf(std::move(report));
}

std::string ReportText(const SaveReport& report, const ConversionOptions& destination) {
  return TextOf(ConversionJson(report.run, report.outcome, destination));
}

llvm::Expected<PlannedRun> PlanSave(ReadableFileSystem& files, const JoinedState& state, const SaveRequest& request,
                                    unsigned threads) {
  CompileRequest compile;
  UCP_ASSIGN_OR_RETURN(compile.source, request.source.Request());
  compile.source.threads = threads;
  compile.target = request.target;
  compile.settings = request.settings;
  compile.replicas = ReplicaPolicy::kTrust;  // One copy of each box was staged.
  compile.threads = threads;
  Described described;
  UCP_ASSIGN_OR_RETURN(described.checkpoint, DescribeJob(state, files, request.settings.tag));
  OpenedSpec spec;
  compile.source.opened = &spec;
  UCP_ASSIGN_OR_RETURN(Compiled compiled, CompileDescribed(files, compile, std::move(described)));
  return PlannedRun{std::move(compiled.plan), kJobFolder};
}

llvm::Expected<SaveReport> WriteSave(FileSystem& files, PlannedRun run, ConversionOptions destination,
                                     ExecutionOptions execution, FilesOfAllRanks* nodes) {
  execution.verify_source_crc = false;  // Memory has none.
  destination.keeps_unfinished = false;
  destination.io = IoMode::kBuffered;  // The source is in memory.
  UCP_ASSIGN_OR_RETURN(ConversionOutcome outcome, Convert(files, run, destination, std::move(execution), {}, nodes));
  return SaveReport{std::move(run), std::move(outcome)};
}

llvm::Expected<SaveReport> SaveState(FileSystem& files, const JoinedState& state, const SaveRequest& request,
                                     ConversionOptions destination, ExecutionOptions execution) {
  UCP_ASSIGN_OR_RETURN(PlannedRun run, PlanSave(files, state, request, execution.threads));
  execution.ranks = &SingleProcess();
  return WriteSave(files, std::move(run), std::move(destination), std::move(execution));
}

}  // namespace ucp
