#include "runtime/jobs/convert/convert.h"

#include <array>
#include <utility>

#include "compiler/compile/compile.h"
#include "compiler/files/seen_files.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "runtime/storage/direct_io_files.h"

namespace ucp {
namespace {

llvm::json::Array PartsJson(const Plan& plan, const TargetParts& parts) {
  llvm::json::Array all;
  for (int part = 0; part < parts.count; ++part) {
    all.push_back(llvm::json::Object{{"rank", parts.LeaderOf(part)},
                                     {"files", parts.FilesOf(part).size()},
                                     {"bytes", parts.BytesOf(part, plan.target.files)},
                                     {"was_complete", parts.IsDone(part)}});
  }
  return all;
}

// The keys about a source, and about what was read of it.
constexpr std::array<const char*, 14> kOfSource = {
    "checkpoint",          "source_format", "source_mesh",     "source_files",      "bytes_to_copy",
    "bytes_to_compare",    "bytes_copied",  "bytes_compared",  "bytes_checksummed", "unused",
    "rounding_mismatches", "decisions",     "bytes_exchanged", "keeps_cuts"};

}  // namespace

llvm::Expected<PlannedRun> PlanConversion(ReadableFileSystem& source, const ConvertRequest& request,
                                          const PlanningOptions& options, const JobHooks& hooks) {
  CompileRequest compile;
  UCP_ASSIGN_OR_RETURN(compile.source, request.source.Request());
  compile.source.threads = options.readers;
  compile.source.clock = options.clock;
  compile.target = request.target;
  compile.settings = request.target_options;
  compile.replicas = request.replicas;
  compile.threads = options.threads;
  compile.hashes_plan = options.hashes_plan;
  SeenFiles seen(source);
  OpenedSpec spec;
  compile.source.opened = &spec;
  llvm::Expected<Compiled> compiled = Compile(seen, compile);
  if (spec != nullptr) hooks.bound(*spec);
  if (!compiled) return compiled.takeError();
  std::vector<FileVersion> versions = VersionsOf(seen, compiled->plan, compiled->source.folder);
  return PlannedRun{std::move(compiled->plan), std::move(compiled->source.folder), std::move(versions),
                    std::move(compiled->plan_hash), std::move(compiled->source.identity)};
}

llvm::Expected<ConvertReport> ConvertCheckpoint(const ConvertRequest& request, const ConversionOptions& destination,
                                                ExecutionOptions execution, const JobHooks& hooks) {
  DirectIoFiles files(RealFileSystem());
  const PlanningOptions planning{.readers = execution.threads, .threads = execution.threads};
  UCP_ASSIGN_OR_RETURN(PlannedRun run, PlanConversion(files, request, planning, hooks));
  execution.ranks = &SingleProcess();
  execution.progress = hooks.begin_progress();
  ConversionHooks conversion;
  conversion.use_io = [&files](DirectIo means) { files.Use(means); };
  UCP_ASSIGN_OR_RETURN(ConversionOutcome outcome, Convert(files, run, destination, std::move(execution), conversion));
  return ConvertReport{std::move(run), std::move(outcome)};
}

// Those of single numbers were made with the plan, those of elements when they were read.
std::vector<RankDecision> AllDecisions(const Plan& plan, const ExecutionReport& report) {
  std::vector<RankDecision> decisions = plan.decisions;
  decisions.insert(decisions.end(), report.decisions.begin(), report.decisions.end());
  return decisions;
}

llvm::json::Object ConversionJson(const PlannedRun& run, const ConversionOutcome& outcome,
                                  const ConversionOptions& options) {
  const Plan& plan = run.plan;
  const ExecutionReport& report = outcome.report;
  llvm::json::Object json = PlanReportJson(plan);
  llvm::json::Array roundings;
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    roundings.push_back(
        llvm::json::Object{{"tensor", mismatch.tensor}, {"elements", mismatch.elements}, {"first", mismatch.first}});
  }
  llvm::json::Array notes;
  for (const std::string& note : report.notes) notes.push_back(note);
  json["destination"] = options.destination;
  if (outcome.parts) json["parts"] = PartsJson(plan, *outcome.parts);
  json["was_complete"] = outcome.was_complete;
  json["bytes_copied"] = report.bytes_copied;
  json["bytes_compared"] = report.bytes_compared;
  json["bytes_checksummed"] = report.bytes_checksummed;
  json["bytes_written"] = report.bytes_written;
  json["bytes_done_before"] = report.bytes_done_before;
  json["bytes_exchanged"] = report.bytes_exchanged;
  json["seconds"] = report.seconds;
  json["peak_memory_bytes"] = report.peak_memory_bytes;
  json["threads"] = report.threads;
  json["chunk_bytes"] = report.chunk_bytes;
  json["buffer_bytes"] = report.buffer_bytes;
  if (!outcome.was_complete) json["io"] = outcome.means.Json(options.has_source);
  json["rounding_mismatches"] = std::move(roundings);
  json["notes"] = std::move(notes);
  json["decisions"] = DecisionsJson(AllDecisions(plan, report));
  json["checkpoint"] = IdentityJson(run.source);
  json["version"] = kJsonVersion;
  if (!options.has_source) {
    for (const char* key : kOfSource) json.erase(key);
  }
  return json;
}

}  // namespace ucp
