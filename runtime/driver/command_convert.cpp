#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/formats/format.h"
#include "compiler/plan/plan_report.h"
#include "compiler/strategies/rank_strategies.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/command_line/conversion_command.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion_report.h"
#include "runtime/engine/share_run.h"
#include "runtime/jobs/convert/convert.h"

namespace ucp {
namespace {

struct ConvertOptions : ConvertRequest {
  bool dry_run = false;
  ConversionCommand conversion;
};

llvm::json::Object DryRunJson(const PlannedRun& run) {
  llvm::json::Object json = PlanReportJson(run.plan);
  json["checkpoint"] = IdentityJson(run.source);
  return json;
}

void PrintDryRun(const PlannedRun& run) {
  for (const std::string& line : IdentityLines(run.source)) PrintReportLine(line);
  for (const std::string& line : PlanReport(run.plan)) PrintReportLine(line);
}

// `6gpus` becomes a strategy; a dry run lists them all.
llvm::Expected<std::vector<std::string>> ChooseTarget(ReadableFileSystem& source, ConvertOptions& options) {
  CompileRequest request;
  UCP_ASSIGN_OR_RETURN(request.source, options.source.Request());
  request.settings = options.target_options;
  return ChooseStrategy(source, request, options.dry_run, options.target);
}

llvm::Expected<PlannedRun> Prepare(ConvertOptions options, RunWatch& watch, ReadableFileSystem& source,
                                   unsigned readers) {
  if (options.source.repairs && options.replicas == ReplicaPolicy::kTrust) {
    return Fail(ErrorCode::kUsage,
                "--repair needs the comparison of weights with their masters, which shows that the states are shifted; "
                "leave out {}",
                OptionName(UserOption::kReplicas, "trust"));
  }
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> remarks, ChooseTarget(source, options));
  JobHooks hooks;
  hooks.bound = [&](const SpecSession& spec) { ShowDiagnostics(spec, options.conversion.json); };
  const PlanningOptions planning{.readers = readers,
                                 .threads = ThreadsOf(options.conversion),
                                 .hashes_plan = !options.dry_run,
                                 .clock = &watch.clock()};
  UCP_ASSIGN_OR_RETURN(PlannedRun run, PlanConversion(source, options, planning, hooks));
  std::ranges::move(remarks, std::back_inserter(run.plan.remarks));
  return run;
}

llvm::Error RunConvert(const ConvertOptions& options, RunWatch& watch, Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(watch.files(), options.conversion.node_local, options.source.path, ranks));
  ReadableFileSystem& source = nodes == nullptr ? watch.files() : nodes->files();
  const unsigned readers = nodes == nullptr ? ThreadsOf(options.conversion) : 1;  // Nodes speak in one thread.
  UCP_ASSIGN_OR_RETURN(const PlannedRun run,
                       ShareRun(ranks, ranks.rank() == 0 ? Prepare(options, watch, source, readers) : PlannedRun{}));
  if (options.dry_run) {
    watch.EndPhases();
    if (ranks.rank() != 0 || watch.TellReport(DryRunJson(run))) return llvm::Error::success();
    if (options.conversion.json) PrintJson(DryRunJson(run));
    if (!options.conversion.json) PrintDryRun(run);
    return llvm::Error::success();
  }
  UCP_ASSIGN_OR_RETURN(WatchedOutcome outcome,
                       ConvertWatched(watch.files(), run, options.conversion, watch, ranks, nodes.get()));
  if (ranks.rank() == 0) PrintReport(run, outcome, options.conversion, watch);
  return llvm::Error::success();
}

// Each format's help on its targets.
std::string TargetsHelp() {
  std::string help = "6gpus: the strategy of 6 ranks that changes least (--dry-run lists all)";
  for (const auto& format : AllFormats()) {
    help += "; " + format->strategy_rules().help;
  }
  return help;
}

constexpr const char* kExamples =
    "  ucprun convert checkpoints/ out/ --to universal\n"
    "  ucprun convert checkpoints/global_step500 out/ --to universal:mp=8 \\\n"
    "      --spec megatron_deepspeed_gpt\n"
    "  ucprun convert checkpoints/ model/ --to safetensors:dtype=bf16\n"
    "  ucprun convert checkpoints/ out/ --to deepspeed:tp=2,pp=2,dp=4,zero=1\n"
    "\n"
    "from_pretrained() loads OUT if it is safetensors. DeepSpeed resumes from it otherwise: "
    "engine.load_checkpoint(OUT), with {\"checkpoint\": {\"load_universal\": true}} if it is universal.";

}  // namespace

void AddConvertCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command =
      app.add_subcommand("convert", "Plan and run a conversion in one go. OUT appears complete, or not at all.");
  command->footer(kExamples);
  command
      ->add_option("CHECKPOINT", options->source.path, "The folder that training saved to, or one tag's folder in it")
      ->transform(MemoryJobs())
      ->required();
  AddDestination(*command, options->conversion);
  command->add_option("--to", options->target, TargetsHelp())->type_name("STRATEGY")->required();
  command
      ->add_option(
          "--spec", options->source.spec,
          "How tensors are cut: a .ucp file, or a name of the catalogue (default: as the checkpoint's own metadata "
          "says, else the one that fits)")
      ->type_name("SPEC");
  AddTargetOptions(*command, options->target_options);
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddReplicasOption(*command, options->replicas);
  command->add_flag("--repair", options->source.repairs,
                    "Read masters and moments that Megatron Core 0.15 to 0.16.1 shifted from where they are; elements "
                    "that are nowhere are listed, get the weights as masters, and zeros as moments");
  command->add_flag("--dry-run", options->dry_run, "Plan and verify, say what it would cost, write nothing");
  AddConversionOptions(*command, options->conversion);
  AddIgnoreCrcOption(*command, options->conversion);
  AddCeilingsOption(*command, options->conversion.watch);
  AddNodeLocalOption(*command, options->conversion.node_local, NodeLocalUse::kWrites);
  command->callback([options, &exit_code] {
    options->conversion.watch.inputs = {options->source.spec, options->source.config,
                                        options->target_options.job_config};
    exit_code = RunWatched(RealFileSystem(), options->conversion,
                           [&](RunWatch& watch, Communicator& ranks) { return RunConvert(*options, watch, ranks); });
  });
}

}  // namespace ucp
