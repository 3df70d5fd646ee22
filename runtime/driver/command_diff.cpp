// `ucprun diff`: by how much two checkpoints differ, tensor by tensor, whichever way each is cut.
#include <memory>
#include <utility>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/progress_line.h"
#include "runtime/command_line/work_options.h"
#include "runtime/driver/commands.h"
#include "runtime/jobs/diff/diff.h"

namespace ucp {
namespace {

struct DiffOptions : DiffRequest {
  WorkOptions work;
};

llvm::Expected<int> RunDiff(const DiffOptions& options) {
  JobHooks hooks;
  hooks.begin_progress = [] {
    return [line = std::make_shared<ProgressLine>()](const ExecutionProgress& now) { line->Show(now); };
  };
  hooks.bound = [&](const SpecSession& spec) { ShowDiagnostics(spec, options.work.json); };
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, ExecutionOptionsFrom(options.work));
  UCP_ASSIGN_OR_RETURN(const DiffOutcome outcome, Diff(options, std::move(execution), hooks));
  if (options.work.json) {
    UCP_RETURN_IF_ERROR(PrintJsonBy([&](llvm::json::OStream& json) { WriteDiff(outcome.report, json); }));
  } else {
    for (const std::string& line : DiffLines(outcome.report)) PrintReportLine(line);
  }
  return Differs(outcome.report) ? kFoundDifference : 0;
}

}  // namespace

void AddDiffCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff", "By how much two checkpoints of any format and layout differ: tensor by tensor, and where.");
  command->footer(
      "  ucprun diff monday/ tuesday/\n"
      "  ucprun diff checkpoints/ model/ --tensor '*.bias' --json\n"
      "\n"
      "States that are the same by both manifests are not read. Exit code 3 if anything differs.");
  command->add_option("A", options->source.path, "A folder that a conversion or a training run wrote")
      ->transform(MemoryJobs())
      ->required();
  command->add_option("B", options->other, "Another one")->transform(MemoryJobs())->required();
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits; one must")->type_name("GLOB");
  command->add_flag("--read-all", options->read_all, "Also read states that are the same by both manifests");
  command
      ->add_option("--spec", options->source.spec,
                   "How tensors are cut, as for `convert`; for both checkpoints, but not for whole tensors")
      ->type_name("SPEC");
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddWorkOptions(*command, options->work);
  AddIgnoreCrcOption(*command, options->work);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    auto code = RunDiff(*options);
    exit_code = code ? *code : ShowError("ucprun", code.takeError(), options->work.json);
  });
}

}  // namespace ucp
