#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/phases/source_phase.h"
#include "compiler/support/error.h"
#include "runtime/convert/conversion.h"
#include "runtime/convert/many_ranks.h"
#include "runtime/convert/plan_file.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion_report.h"
#include "runtime/executor/share_run.h"

namespace ucp {
namespace {

struct RunOptions {
  std::string plan;
  std::string source;
  ConversionOptions conversion;
};

llvm::Expected<PlannedRun> Prepare(const RunOptions& options, RunWatch& watch, FileSystem& source) {
  watch.clock().Begin("load");
  UCP_ASSIGN_OR_RETURN(Plan plan, ReadPlanFile(watch.files(), options.plan));
  watch.clock().Begin("describe");
  SeenFiles seen(source);
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(seen, options.source, plan.preference));
  UCP_RETURN_IF_ERROR(CheckIdentity(plan, checkpoint.inventory));
  std::vector<FileVersion> versions = VersionsOf(seen, plan, checkpoint.inventory.root);
  return PlannedRun{std::move(plan), checkpoint.inventory.root, std::move(versions)};
}

llvm::Error RunPlan(const RunOptions& options, RunWatch& watch, Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(
      std::unique_ptr<FilesOfAllRanks> nodes,
      NodesOfSource(watch.files(), options.conversion.node_local, NodeLocalUse::kWrites, options.source, ranks));
  FileSystem& source = nodes == nullptr ? watch.files() : nodes->files();
  UCP_ASSIGN_OR_RETURN(const PlannedRun run,
                       ShareRun(ranks, ranks.rank() == 0 ? Prepare(options, watch, source) : PlannedRun{}));
  UCP_ASSIGN_OR_RETURN(ConversionOutcome outcome,
                       Convert(watch.files(), run, options.conversion, watch, ranks, nodes.get()));
  if (ranks.rank() == 0) PrintReport(run.plan, outcome, options.conversion, watch);
  return llvm::Error::success();
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Execute a plan that `ucpc plan` wrote, on the checkpoint it was made from.");
  command->footer("  ucprun run run.plan out/ --from checkpoints/");
  command->add_option("PLAN", options->plan, "A file that `ucpc plan` wrote")->required();
  AddDestination(*command, options->conversion);
  command->add_option("--from", options->source, "The checkpoint; a plan holds no absolute paths")
      ->type_name("DIR")
      ->required();
  AddConversionOptions(*command, options->conversion);
  AddIgnoreCrcOption(*command, options->conversion);
  AddCeilingsOption(*command, options->conversion.watch);
  AddNodeLocalOption(*command, options->conversion.node_local, NodeLocalUse::kWrites);
  command->callback([options, &exit_code] {
    options->conversion.watch.inputs = {options->plan};
    exit_code = RunWatched(RealFileSystem(), options->conversion,
                           [&](RunWatch& watch, Communicator& ranks) { return RunPlan(*options, watch, ranks); });
  });
}

}  // namespace ucp
