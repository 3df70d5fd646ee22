#include "runtime/driver/conversion.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/driver/plan_report.h"
#include "compiler/driver/terminal.h"
#include "compiler/plan/codec.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/driver/interrupt.h"
#include "runtime/formats/format.h"
#include "runtime/io/commit.h"
#include "runtime/manifest/manifest.h"

namespace ucp {
namespace {

// The processors this process may run on, which in a container or under a launcher are fewer than the machine has.
unsigned UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

constexpr unsigned kMostThreads = 256;

std::uint64_t BytesToWrite(const Plan& plan) { return Totals(plan).bytes_to_write; }

// --force is for the result of an earlier run: it does not delete folders of another kind. And a source must not get a
// folder inside it that was not there.
llvm::Error CheckDestination(FileSystem& files, const std::string& source_folder, const ConversionOptions& options) {
  namespace fs = std::filesystem;
  fs::path source = fs::absolute(source_folder).lexically_normal();
  fs::path destination = fs::absolute(options.destination).lexically_normal();
  auto [rest, ignored] = std::mismatch(source.begin(), source.end(), destination.begin(), destination.end());
  if (rest == source.end() && source != destination) {
    return Fail(ErrorCode::kUsage, "`{}` lies inside the source `{}`; name a folder elsewhere", options.destination,
                source_folder);
  }
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(options.destination));
  if (!options.force || kind != PathKind::kDirectory) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(options.destination));
  if (entries.empty()) return llvm::Error::success();
  if (llvm::Error error = RecogniseAny(files, options.destination).takeError()) {
    llvm::consumeError(std::move(error));
    return Fail(ErrorCode::kUsage, "`{}` is neither empty nor a checkpoint, so --force does not replace it",
                options.destination);
  }
  return llvm::Error::success();
}

// Single weights that are no rounding of their masters are reported. When most of a tensor's are not, these are not the
// masters of this model, and a conversion would carry wrong values on.
llvm::Error CheckMastersBelong(const Plan& plan, const ExecutionReport& report) {
  std::map<std::string, std::uint64_t> elements;
  for (const PlanTensor& tensor : plan.tensors) {
    std::uint64_t count = 1;
    for (std::int64_t length : tensor.logical.shape) count *= static_cast<std::uint64_t>(length);
    elements[tensor.logical.name] = count;
  }
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    if (mismatch.elements <= elements[mismatch.tensor] / 2) continue;
    return Fail(ErrorCode::kBadData,
                "{} of the {} weights of `{}` are not the rounding of their masters, so these files do not belong "
                "together; first: {}. Pass --replicas=trust to take the masters all the same",
                mismatch.elements, elements[mismatch.tensor], mismatch.tensor, mismatch.first);
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> HashOf(const Plan& plan) {
  UCP_ASSIGN_OR_RETURN(std::string encoded, EncodePlan(plan));
  return ContentHash(encoded);
}

llvm::Error WriteManifest(FileSystem& files, const std::string& folder, const Plan& plan, const std::string& plan_hash,
                          const ExecutionReport& report) {
  const std::string text = ComposeManifest(MakeManifest(plan, plan_hash, report));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                       files.CreateForWriting(JoinPath(folder, kManifestName), text.size()));
  UCP_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
  return file->Close();
}

}  // namespace

llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options) {
  ExecutionOptions execution;
  execution.threads = options.threads == 0 ? std::min(UsableProcessors(), kMostThreads) : options.threads;
  std::optional<std::uint64_t> memory = ParseByteCount(options.memory);
  if (!memory) {
    return Fail(ErrorCode::kUsage, "--memory takes a size such as 256MiB or 4GB, not `{}`", options.memory);
  }
  execution.memory_bytes = *memory;
  execution.verify_source_crc = !options.ignore_crc;
  execution.cancelled = &WatchForInterrupts();
  return execution;
}

void AddThreadsOption(CLI::App& command, WorkOptions& options) {
  command.add_option("--threads", options.threads, "Default: one for each processor this process may use")
      ->check(CLI::Range(1u, kMostThreads))
      ->type_name("N");
}

void AddWorkOptions(CLI::App& command, WorkOptions& options) {
  AddThreadsOption(command, options);
  command.add_option("--memory", options.memory, "The most memory to use; default 1GiB")->type_name("SIZE");
  command.add_flag("--ignore-crc", options.ignore_crc,
                   "Do not check the source's zip checksums; for files saved with checksums switched off");
  command.add_flag("--json", options.json, "The report as JSON on standard output");
}

void AddConversionOptions(CLI::App& command, ConversionOptions& options) {
  command.add_flag("--force", options.force, "Replace an existing destination, in one step");
  AddWorkOptions(command, options);
  AddWatchOptions(command, options.watch);
}

llvm::Expected<ExecutionReport> Convert(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                        const ConversionOptions& options, RunWatch& watch) {
  watch.clock().Begin("prepare");
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, ExecutionOptionsFrom(options));
  UCP_RETURN_IF_ERROR(CheckDestination(files, source_folder, options));
  UCP_ASSIGN_OR_RETURN(std::string plan_hash, HashOf(plan));
  UCP_ASSIGN_OR_RETURN(Staging staging,
                       Staging::Begin(files, options.destination, {options.force, BytesToWrite(plan), source_folder}));
  watch.Attach(execution);
  auto report = Execute(plan, source_folder, staging.folder(), files, execution);
  llvm::Error error = report ? CheckMastersBelong(plan, *report) : report.takeError();
  if (!error) error = WriteManifest(files, staging.folder(), plan, plan_hash, *report);
  if (error) {
    if (llvm::Error left_behind = staging.Abandon()) {
      FailureText failure = Describe(std::move(error));
      return MakeError(failure.code, failure.message + "; and " + Describe(std::move(left_behind)).message);
    }
    return error;
  }
  ParallelOptions parallel;
  parallel.threads = execution.threads;
  parallel.cancelled = execution.cancelled;
  watch.clock().Begin("commit");
  UCP_RETURN_IF_ERROR(staging.Commit(parallel));
  watch.EndPhases();
  watch.Note(fmt::format("{} at a time for each of {}; buffers {} of {}", HumanBytes(report->chunk_bytes),
                         Counted(report->threads, "thread"), HumanBytes(report->buffer_bytes), options.memory));
  return report;
}

namespace {

std::string RoundingText(const RoundingMismatch& mismatch) {
  return fmt::format(
      "the model's weights of `{}` are not the rounding of their masters in {}; the masters were used. First: {}",
      mismatch.tensor, Counted(mismatch.elements, "element"), mismatch.first);
}

// Those of single numbers were made with the plan, those of elements when they were read.
std::vector<RankDecision> AllDecisions(const Plan& plan, const ExecutionReport& report) {
  std::vector<RankDecision> decisions = plan.decisions;
  decisions.insert(decisions.end(), report.decisions.begin(), report.decisions.end());
  return decisions;
}

llvm::json::Object ReportJson(const Plan& plan, const ExecutionReport& report, const ConversionOptions& options,
                              RunWatch& watch) {
  llvm::json::Object json = PlanReportJson(plan);
  llvm::json::Array roundings;
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    roundings.push_back(
        llvm::json::Object{{"tensor", mismatch.tensor}, {"elements", mismatch.elements}, {"first", mismatch.first}});
  }
  llvm::json::Array notes;
  for (const std::string& note : report.notes) notes.push_back(note);
  json["destination"] = options.destination;
  json["bytes_copied"] = report.bytes_copied;
  json["bytes_compared"] = report.bytes_compared;
  json["bytes_checksummed"] = report.bytes_checksummed;
  json["bytes_written"] = report.bytes_written;
  json["seconds"] = report.seconds;
  json["peak_memory_bytes"] = report.peak_memory_bytes;
  json["threads"] = report.threads;
  json["chunk_bytes"] = report.chunk_bytes;
  json["buffer_bytes"] = report.buffer_bytes;
  json["phases"] = PhasesJson(watch.clock());
  json["rounding_mismatches"] = std::move(roundings);
  json["notes"] = std::move(notes);
  json["decisions"] = DecisionsJson(AllDecisions(plan, report));
  return json;
}

}  // namespace

void PrintReport(const Plan& plan, const ExecutionReport& report, const ConversionOptions& options, RunWatch& watch) {
  llvm::json::Object json = ReportJson(plan, report, options, watch);
  if (watch.TellReport(json)) return;
  if (options.json) {
    PrintJson(std::move(json));
    return;
  }
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) ShowMessage("warning: " + RoundingText(mismatch));
  for (const std::string& remark : plan.remarks) ShowMessage("note: " + remark);
  for (const std::string& note : report.notes) ShowMessage("note: " + note);
  const std::vector<RankDecision> decisions = AllDecisions(plan, report);
  for (const std::string& note : DecisionNotes(plan.preference, decisions)) ShowMessage("note: " + note);
  if (!plan.preference.empty() && decisions.empty()) {
    ShowMessage("note: --prefer-rank decided nothing: no ranks were found to contradict each other");
  }
  std::uint64_t read = report.bytes_copied + report.bytes_compared + report.bytes_checksummed;
  double rate = report.seconds > 0 ? static_cast<double>(read + report.bytes_written) / report.seconds / 1e9 : 0;
  PrintLine(
      fmt::format("{}, {} read ({} of it to compare copies, {} for checksums only), {} written in {:.2f} s "
                  "({:.2f} GB/s), peak memory {}",
                  Counted(Totals(plan).tensors, "tensor"), HumanBytes(read), HumanBytes(report.bytes_compared),
                  HumanBytes(report.bytes_checksummed), HumanBytes(report.bytes_written), report.seconds, rate,
                  HumanBytes(report.peak_memory_bytes)));
  PrintLine(fmt::format("wrote {}", options.destination));
}

int RunWatched(FileSystem& files, const ConversionOptions& options, llvm::function_ref<llvm::Error(RunWatch&)> work) {
  llvm::Expected<std::unique_ptr<RunWatch>> watch = RunWatch::Begin(files, options.watch);
  if (!watch) return ShowError("ucprun", watch.takeError(), options.json);
  llvm::Error error = work(**watch);
  bool json = options.json;
  if (error) {
    (*watch)->EndPhases();
    error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<Failure> failure) -> llvm::Error {
      if ((*watch)->TellError(CodeName(failure->code()), failure->text())) json = false;
      return llvm::Error(std::move(failure));
    });
  }
  // What was converted is converted, whether or not all of it could be told.
  if (llvm::Error untold = (*watch)->End()) ShowMessage("warning: " + Describe(std::move(untold)).message);
  return error ? ShowError("ucprun", std::move(error), json) : 0;
}

}  // namespace ucp
