// `ucprun verify`: whether a checkpoint is what was written, and whether two are the same, whichever way they are cut.
#include <memory>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/progress_line.h"
#include "runtime/command_line/watched_ranks.h"
#include "runtime/command_line/work_options.h"
#include "runtime/driver/commands.h"
#include "runtime/jobs/verify/verify.h"

namespace ucp {
namespace {

struct VerifyOptions : VerifyRequest {
  WorkOptions work;
};

llvm::Expected<ExecutionOptions> SharedExecution(const WorkOptions& work, Communicator& ranks) {
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(work);
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  execution->ranks = &ranks;
  return execution;
}

JobHooks HooksOf(const WorkOptions& work) {
  JobHooks hooks;
  hooks.begin_progress = [] {  // How far the reading is; no files are written.
    return [line = std::make_shared<ProgressLine>()](const ExecutionProgress& now) {
      line->Show({now.bytes_done, now.bytes_total, 0, 0});
    };
  };
  hooks.bound = [&work](const SpecSession& spec) { ShowDiagnostics(spec, work.json); };
  hooks.warn = [](const std::string& sentence) { ShowMessage("warning: " + sentence); };
  hooks.note = [](const std::string& sentence) { ShowMessage("note: " + sentence); };
  return hooks;
}

void PrintText(const VerifyReport& report) {
  for (const CheckpointIdentity& read : report.read) {
    for (const std::string& line : IdentityLines(read, "read", 10)) PrintReportLine(line);
  }
  for (const std::string& line : report.lines) PrintReportLine(line);
  for (const std::string& difference : report.differences) ShowMessage("different: " + difference);
}

llvm::Error Print(const VerifyOptions& options, const VerifyReport& report) {
  if (options.work.json) return PrintJsonBy([&](llvm::json::OStream& json) { WriteVerifyReport(report, json); });
  PrintText(report);
  return llvm::Error::success();
}

int RunVerify(const VerifyOptions& options) {
  llvm::Expected<Communicator*> ranks = WatchedRanks(options.work.rank_timeout, false);
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.work.json);
  auto verify = [&]() -> llvm::Expected<VerifyReport> {
    UCP_ASSIGN_OR_RETURN(const ExecutionOptions execution, SharedExecution(options.work, **ranks));
    return Verify(options, execution, HooksOf(options.work));
  };
  llvm::Expected<VerifyReport> report = verify();
  if (!report) return EndWith(report.takeError(), options.work.json);
  if ((*ranks)->rank() != 0) return 0;  // The launcher ends with what rank 0 found.
  if (llvm::Error error = Print(options, *report)) return EndWith(std::move(error), options.work.json);
  return report->differences.empty() ? 0 : kFoundDifference;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Check that a checkpoint is what was written, or that two are the same, however they are cut.");
  command->footer(
      "  ucprun verify out/                      against its ucp_manifest.json\n"
      "  ucprun verify checkpoints/ --same out/  every tensor and state, bit by bit\n"
      "  ucprun verify checkpoints/ --same model/ --bytes\n"
      "                                          the elements themselves\n"
      "  ucprun verify out/ --synth              what `ucprun synth` wrote\n"
      "\n"
      "A checkpoint without a manifest is read all the same: checksums, and copies on other ranks. Exit code 3 if "
      "anything differs.");
  command->add_option("CHECKPOINT", options->source.path, "A folder that a conversion or a training run wrote")
      ->transform(MemoryJobs())
      ->required();
  command->add_option("--same", options->same, "Another checkpoint, of any format, that must hold the same")
      ->transform(MemoryJobs())
      ->type_name("DIR");
  command
      ->add_flag("--bytes", options->by_elements,
                 "With --same: compare the elements of both checkpoints themselves, and not their digests")
      ->needs("--same");
  command->add_flag("--synth", options->synth,
                    "Every element must be what `ucprun synth` writes, whatever the files were converted to since");
  command->add_option("--spec", options->source.spec, "How tensors are cut, as for `convert`; for both checkpoints")
      ->type_name("SPEC");
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddNodeLocalOption(*command, options->node_local, NodeLocalUse::kReads);
  AddWorkOptions(*command, options->work);
  AddRankTimeoutOption(*command, options->work.rank_timeout);
  AddIgnoreCrcOption(*command, options->work);
  command->callback([options, &exit_code] { exit_code = RunVerify(*options); });
}

}  // namespace ucp
