#include <memory>

#include "compiler/driver/source_phase.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion.h"
#include "runtime/driver/plan_file.h"

namespace ucp {
namespace {

struct RunOptions {
  std::string plan;
  std::string source;
  ConversionOptions conversion;
};

llvm::Error RunPlan(const RunOptions& options, RunWatch& watch) {
  FileSystem& files = watch.files();
  watch.clock().Begin("load");
  UCP_ASSIGN_OR_RETURN(Plan plan, LoadPlan(files, options.plan));
  watch.clock().Begin("describe");
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(files, options.source, plan.preference));
  UCP_RETURN_IF_ERROR(CheckIdentity(plan, checkpoint.inventory));
  UCP_ASSIGN_OR_RETURN(ExecutionReport report,
                       Convert(files, plan, checkpoint.inventory.root, options.conversion, watch));
  PrintReport(plan, report, options.conversion, watch);
  return llvm::Error::success();
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Execute a plan that `ucpc plan` wrote, on the checkpoint it was made from.");
  command->footer("  ucprun run run.plan out/ --from checkpoints/");
  command->add_option("PLAN", options->plan, "A file that `ucpc plan` wrote")->required();
  command->add_option("OUT", options->conversion.destination, "The folder to make; it must not exist")->required();
  command->add_option("--from", options->source, "The checkpoint; a plan holds no absolute paths")
      ->type_name("DIR")
      ->required();
  AddConversionOptions(*command, options->conversion);
  command->callback([options, &exit_code] {
    exit_code =
        RunWatched(RealFileSystem(), options->conversion, [&](RunWatch& watch) { return RunPlan(*options, watch); });
  });
}

}  // namespace ucp
