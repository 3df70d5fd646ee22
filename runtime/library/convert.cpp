#include "ucp/convert.h"

#include <utility>

#include "compiler/open/with_diagnostics.h"
#include "compiler/support/error.h"
#include "runtime/jobs/convert/convert.h"
#include "runtime/jobs/verify/verify.h"
#include "runtime/library/call.h"

namespace ucp {
namespace {

llvm::Expected<ExecutionOptions> ExecutionOf(const WorkSettings& settings, bool checksums) {
  UCP_ASSIGN_OR_RETURN(const unsigned threads, ThreadsOf(settings.threads));
  ExecutionOptions execution;
  execution.threads = threads;
  execution.memory_bytes = settings.memory_bytes;
  execution.verify_source_crc = checksums;
  execution.cancelled = settings.cancelled;
  UCP_ASSIGN_OR_RETURN(execution.open_files, DivideOpenFiles(OpenFileLimit(), threads));
  return execution;
}

JobHooks HooksOf(const WorkSettings& settings, std::string& errors_of_spec, std::vector<std::string>& notes) {
  JobHooks hooks;
  if (settings.progress) {
    hooks.begin_progress = [&settings]() -> ProgressCallback {
      return [&settings](const ExecutionProgress& now) { settings.progress({now.bytes_done, now.bytes_total}); };
    };
  }
  hooks.bound = [&](const SpecSession& spec) { errors_of_spec = ErrorsOf(spec); };
  hooks.warn = hooks.note = [&](const std::string& sentence) { notes.push_back(sentence); };
  return hooks;
}

}  // namespace

inline namespace v0 {

ConvertTotals Convert(const LoadSource& source, const std::string& out, const std::string& to,
                      const ConvertSettings& settings) {
  const ConvertRequest request{TextsOf(source),
                               to,
                               {settings.tag, settings.keep_opaque, settings.ds_config},
                               settings.verify ? ReplicaPolicy::kCompare : ReplicaPolicy::kTrust};
  ConversionOptions destination;
  destination.destination = out;
  destination.force = settings.force;
  destination.resume = settings.resume;
  ConvertTotals totals;
  std::string errors;
  const JobHooks hooks = HooksOf(settings, errors, totals.remarks);
  llvm::Expected<ConvertReport> report =
      ConvertCheckpoint(request, destination, Take(ExecutionOf(settings, settings.verify)), hooks);
  if (!report) ThrowIf(WithDiagnostics(report.takeError(), errors));
  const ExecutionReport& done = report->outcome.report;
  totals.bytes_read = done.bytes_copied + done.bytes_compared + done.bytes_checksummed;
  totals.bytes_written = done.bytes_written;
  totals.seconds = done.seconds;
  totals.was_complete = report->outcome.was_complete;
  totals.remarks = report->run.plan.remarks;
  totals.remarks.insert(totals.remarks.end(), done.notes.begin(), done.notes.end());
  return totals;
}

VerifyFindings Verify(const LoadSource& source, const VerifySettings& settings) {
  VerifyRequest request;
  request.source = TextsOf(source);
  request.same = settings.same;
  request.by_elements = settings.by_elements;
  VerifyFindings findings;
  std::string errors;
  const JobHooks hooks = HooksOf(settings, errors, findings.notes);
  llvm::Expected<VerifyReport> report = Verify(request, Take(ExecutionOf(settings, settings.checksums)), hooks);
  if (!report) ThrowIf(WithDiagnostics(report.takeError(), errors));
  findings.notes.insert(findings.notes.end(), report->lines.begin(), report->lines.end());
  findings.differences = std::move(report->differences);
  return findings;
}

}  // namespace v0
}  // namespace ucp
