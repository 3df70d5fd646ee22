#include "runtime/driver/conversion_report.h"

#include <fmt/format.h>

#include <llvm/Support/JSON.h>

#include <algorithm>
#include <optional>

#include "compiler/command_line/terminal.h"
#include "compiler/plan/kept_cuts.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/units.h"
#include "runtime/jobs/convert/convert.h"

namespace ucp {
namespace {

std::string RoundingText(const RoundingMismatch& mismatch) {
  return fmt::format(
      "the model's weights of `{}` are not the rounding of their masters in {}; the masters were used. First: {}",
      mismatch.tensor, Counted(mismatch.elements, "element"), mismatch.first);
}

// How near a run came to what the storage can do.
struct Nearness {
  std::string folder;  // Where that was measured.
  double seconds = 0;  // That the storage alone would take.
  double share = 0;    // Of the run's own time.
  std::uint64_t bytes_from_storage = 0;
};

std::uint64_t BytesRead(const ExecutionReport& report) {
  return report.bytes_copied + report.bytes_compared + report.bytes_checksummed;
}

std::optional<Nearness> NearnessOf(const WatchedOutcome& outcome, RunWatch& watch) {
  if (!watch.ceilings() || outcome.was_complete) return std::nullopt;
  double seconds = outcome.report.seconds;
  for (const Phase& phase : watch.clock().phases()) {
    if (phase.name == "commit") seconds += phase.seconds;
  }
  const MovedBytes moved{BytesRead(outcome.report), outcome.bytes_from_storage, outcome.report.bytes_written};
  const double at_best = SecondsAt(*watch.ceilings(), moved);
  return Nearness{watch.ceilings()->folder, at_best, at_best / seconds, std::min(moved.read, moved.read_from_storage)};
}

llvm::json::Object ReportJson(const PlannedRun& run, const WatchedOutcome& outcome, const ConversionCommand& options,
                              RunWatch& watch) {
  llvm::json::Object json = ConversionJson(run, outcome, options);
  if (const std::optional<Nearness> nearness = NearnessOf(outcome, watch)) {
    json["ceilings"] = llvm::json::Object{{"folder", nearness->folder},
                                          {"seconds", nearness->seconds},
                                          {"share", nearness->share},
                                          {"bytes_from_storage", nearness->bytes_from_storage}};
  }
  json["choices"] = llvm::json::Array(outcome.choices);
  json["phases"] = PhasesJson(watch.clock());
  return json;
}

}  // namespace

void PrintWhatWasDoneBefore(const ExecutionReport& report) {
  if (report.bytes_done_before == 0) return;
  PrintReportLine(fmt::format("went on where an earlier run had written {}", HumanBytes(report.bytes_done_before)));
}

void PrintReport(const PlannedRun& run, const WatchedOutcome& outcome, const ConversionCommand& options,
                 RunWatch& watch) {
  const Plan& plan = run.plan;
  llvm::json::Object json = ReportJson(run, outcome, options, watch);
  if (watch.TellReport(json)) return;
  if (options.json) {
    PrintJson(std::move(json));
    return;
  }
  if (outcome.was_complete) {
    PrintReportLine(fmt::format("`{}` is complete already; nothing was left to do", options.destination));
    return;
  }
  if (options.has_source) {
    for (const std::string& line : IdentityLines(run.source)) PrintReportLine(line);
  }
  const ExecutionReport& report = outcome.report;
  PrintWhatWasDoneBefore(report);
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) ShowMessage("warning: " + RoundingText(mismatch));
  for (const std::string& remark : plan.remarks) ShowMessage("note: " + remark);
  if (options.has_source && KeepsCuts(plan)) ShowMessage(fmt::format("note: {}", kCutsAreKept));
  for (const std::string& note : report.notes) ShowMessage("note: " + note);
  const std::vector<RankDecision> decisions = AllDecisions(plan, report);
  for (const std::string& note : DecisionNotes(plan.preference, decisions)) ShowMessage("note: " + note);
  if (!plan.preference.empty() && decisions.empty()) {
    ShowMessage("note: --prefer-rank decided nothing: no ranks were found to contradict each other");
  }
  std::uint64_t read = BytesRead(report);
  double rate = report.seconds > 0 ? static_cast<double>(read + report.bytes_written) / report.seconds : 0;
  PrintReportLine(
      fmt::format("{}, {} read ({} of it to compare copies, {} for checksums only), {} written in {:.2f} s "
                  "({}), peak memory {}",
                  Counted(Totals(plan).tensors, "tensor"), HumanBytes(read), HumanBytes(report.bytes_compared),
                  HumanBytes(report.bytes_checksummed), HumanBytes(report.bytes_written), report.seconds,
                  HumanRate(rate), HumanBytes(report.peak_memory_bytes)));
  if (const std::optional<Nearness> nearness = NearnessOf(outcome, watch)) {
    PrintReportLine(fmt::format(
        "{:.0f} % of what `bench` measured in `{}`: that storage alone would take {:.2f} s ({} were "
        "read from it, the rest from memory)",
        100 * nearness->share, nearness->folder, nearness->seconds, HumanBytes(nearness->bytes_from_storage)));
  }
  if (report.bytes_exchanged > 0) {
    PrintReportLine(
        fmt::format("{} of what was read went from one rank to another", HumanBytes(report.bytes_exchanged)));
  }
  PrintReportLine(
      fmt::format("wrote {}{}", options.destination,
                  outcome.parts ? fmt::format(" in {} parts, one on each node", outcome.parts->count) : ""));
}

}  // namespace ucp
