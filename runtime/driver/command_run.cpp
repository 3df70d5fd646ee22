#include <memory>

#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/command_line/conversion_command.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion_report.h"
#include "runtime/driver/plan_to_run.h"
#include "runtime/engine/share_run.h"

namespace ucp {
namespace {

struct RunOptions {
  std::string plan;
  std::string source;
  bool trust_plan = false;
  ConversionCommand conversion;
};

llvm::Expected<PlannedRun> Prepare(const RunOptions& options, RunWatch& watch, ReadableFileSystem* nodes) {
  const unsigned threads = ThreadsOf(options.conversion);
  return PreparePlan(watch.files(), nodes == nullptr ? watch.files() : *nodes,
                     {.path = options.plan,
                      .source = options.source,
                      .is_trusted = options.trust_plan,
                      .readers = nodes == nullptr ? threads : 1,  // Nodes speak in one thread.
                      .threads = threads,
                      .clock = &watch.clock()});
}

llvm::Error RunPlan(const RunOptions& options, RunWatch& watch, Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(watch.files(), options.conversion.node_local, options.source, ranks));
  ReadableFileSystem* files_of_nodes = nodes == nullptr ? nullptr : &nodes->files();
  UCP_ASSIGN_OR_RETURN(const PlannedRun run,
                       ShareRun(ranks, ranks.rank() == 0 ? Prepare(options, watch, files_of_nodes) : PlannedRun{}));
  UCP_ASSIGN_OR_RETURN(WatchedOutcome outcome,
                       ConvertWatched(watch.files(), run, options.conversion, watch, ranks, nodes.get()));
  if (ranks.rank() == 0) PrintReport(run, outcome, options.conversion, watch);
  return llvm::Error::success();
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Execute a plan that `ucpc plan` wrote, on the checkpoint it was made from.");
  command->footer(
      "  ucprun run run.plan out/ --from checkpoints/\n"
      "\n"
      "A plan file holds what was asked for. It is planned again from that, and a file that holds another plan is "
      "refused. `ucpc dump` shows what was asked for, and the plan.");
  command->add_option("PLAN", options->plan, "A file that `ucpc plan` wrote")->required();
  AddDestination(*command, options->conversion);
  command->add_option("--from", options->source, "The checkpoint; a plan holds no absolute paths")
      ->transform(MemoryJobs())
      ->type_name("DIR")
      ->required();
  command->add_flag("--trust-plan", options->trust_plan,
                    "Run the plan as it is; without this it is made again, and one that differs is refused");
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
