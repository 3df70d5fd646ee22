#include "runtime/driver/conversion.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "compiler/driver/plan_report.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/driver/interrupt.h"
#include "runtime/driver/progress.h"
#include "runtime/io/commit.h"

namespace ucp {
namespace {

// The processors this process may run on, which in a container or under a launcher are fewer than the machine has.
unsigned UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

constexpr unsigned kMostThreads = 256;

llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const ConversionOptions& options) {
  ExecutionOptions execution;
  execution.threads = options.threads == 0 ? std::min(UsableProcessors(), kMostThreads) : options.threads;
  std::optional<std::uint64_t> memory = ParseByteCount(options.memory);
  if (!memory) {
    return Fail(ErrorCode::kUsage, "--memory takes a size such as 256MiB or 4GB, not `{}`", options.memory);
  }
  execution.memory_bytes = *memory;
  execution.verify_source_crc = !options.ignore_crc;
  return execution;
}

std::uint64_t BytesToWrite(const Plan& plan) { return Totals(plan).bytes_to_write; }

}  // namespace

void AddConversionOptions(CLI::App& command, ConversionOptions& options) {
  command.add_flag("--force", options.force, "Replace an existing destination, in one step");
  command.add_option("--threads", options.threads, "Default: one for each processor this process may use")
      ->check(CLI::Range(1u, kMostThreads))
      ->type_name("N");
  command.add_option("--memory", options.memory, "The most memory to use; default 1GiB")->type_name("SIZE");
  command.add_flag("--ignore-crc", options.ignore_crc,
                   "Do not check the source's zip checksums; for files saved with checksums switched off");
  command.add_flag("--json", options.json, "The report as JSON on standard output");
}

llvm::Expected<ExecutionReport> Convert(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                        const ConversionOptions& options) {
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, ExecutionOptionsFrom(options));
  execution.cancelled = &WatchForInterrupts();
  UCP_ASSIGN_OR_RETURN(Staging staging,
                       Staging::Begin(files, options.destination, {options.force, BytesToWrite(plan), source_folder}));
  ProgressLine progress;
  execution.progress = [&progress](const ExecutionProgress& now) { progress.Show(now); };
  auto report = Execute(plan, source_folder, staging.folder(), files, execution);
  if (!report) {
    llvm::Error error = report.takeError();
    if (llvm::Error left_behind = staging.Abandon()) {
      FailureText failure = Describe(std::move(error));
      return MakeError(failure.code, failure.message + "; and " + Describe(std::move(left_behind)).message);
    }
    return error;
  }
  ParallelOptions parallel;
  parallel.threads = execution.threads;
  parallel.cancelled = execution.cancelled;
  UCP_RETURN_IF_ERROR(staging.Commit(parallel));
  return report;
}

namespace {

std::string RoundingText(const RoundingMismatch& mismatch) {
  return fmt::format(
      "the model's weights of `{}` are not the rounding of their masters in {} element{}; the masters were "
      "used. First: {}",
      mismatch.tensor, WithThousands(mismatch.elements), mismatch.elements == 1 ? "" : "s", mismatch.first);
}

llvm::json::Object ReportJson(const Plan& plan, const ExecutionReport& report, const ConversionOptions& options) {
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
  json["rounding_mismatches"] = std::move(roundings);
  json["notes"] = std::move(notes);
  return json;
}

}  // namespace

void PrintReport(const Plan& plan, const ExecutionReport& report, const ConversionOptions& options) {
  if (options.json) {
    PrintJson(ReportJson(plan, report, options));
    return;
  }
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) PrintLine("warning: " + RoundingText(mismatch));
  for (const std::string& remark : plan.remarks) PrintLine("note: " + remark);
  for (const std::string& note : report.notes) PrintLine("note: " + note);
  std::uint64_t read = report.bytes_copied + report.bytes_compared + report.bytes_checksummed;
  double rate = report.seconds > 0 ? static_cast<double>(read + report.bytes_written) / report.seconds / 1e9 : 0;
  PrintLine(
      fmt::format("{} tensors, {} read ({} of it to compare copies, {} for checksums only), {} written in {:.2f} s "
                  "({:.2f} GB/s), peak memory {}",
                  WithThousands(Totals(plan).tensors), HumanBytes(read), HumanBytes(report.bytes_compared),
                  HumanBytes(report.bytes_checksummed), HumanBytes(report.bytes_written), report.seconds, rate,
                  HumanBytes(report.peak_memory_bytes)));
  PrintLine(fmt::format("wrote {}", options.destination));
}

}  // namespace ucp
