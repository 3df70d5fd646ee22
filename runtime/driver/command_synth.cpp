// `ucprun synth`: a checkpoint of any size and format, without a source. It is planned and written like any conversion,
// and its elements are computed where a conversion would read them.
#include <fmt/format.h>

#include <memory>

#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/find_strategy.h"
#include "compiler/command_line/command_line.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/compile/compile.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/synthetic/synthetic_source.h"
#include "runtime/command_line/conversion_command.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion_report.h"
#include "runtime/engine/share_run.h"
#include "runtime/synth/synthetic_files.h"

namespace ucp {
namespace {

struct SynthOptions {
  SourceTexts source;  // The spec and its values.
  std::string target;
  std::string parameters;
  std::vector<std::string> tied;
  std::string tag;
  std::string ds_config;
  ConversionCommand conversion;
};

llvm::Expected<Compiled> CompileSynthetic(ReadableFileSystem& files, const SynthOptions& options, OpenedSpec& spec) {
  UCP_ASSIGN_OR_RETURN(SourceRequest given, options.source.Request());
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(given.spec));
  UCP_ASSIGN_OR_RETURN(spec, OpenSpec(path));
  UCP_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(options.target, spec.get()));
  SyntheticRequest request{given.config, given.set, options.parameters, {}};
  UCP_ASSIGN_OR_RETURN(request.tied, ParseTiedLayers(options.tied));
  UCP_ASSIGN_OR_RETURN(BoundSource source, MakeSyntheticSource(files, request, strategy, spec));
  CompileRequest compile;
  compile.target = options.target;
  compile.settings.tag = options.tag;
  compile.settings.job_config = options.ds_config;
  compile.replicas = ReplicaPolicy::kTrust;  // Weights are computed where they are written, and from nothing else.
  return CompileBound(files, compile, std::move(source));
}

void Print(const PlannedRun& run, const WatchedOutcome& outcome, const ConversionCommand& options, RunWatch& watch) {
  if (options.json || outcome.was_complete || watch.tells_to_output()) {
    return PrintReport(run, outcome, options, watch);
  }
  const Plan& plan = run.plan;
  const ExecutionReport& report = outcome.report;
  PrintWhatWasDoneBefore(report);
  for (const std::string& remark : plan.remarks) ShowMessage("note: " + remark);
  const double rate = report.seconds > 0 ? static_cast<double>(report.bytes_written) / report.seconds : 0;
  PrintReportLine(fmt::format("{}, {} computed and written in {:.2f} s ({}), peak memory {}",
                              Counted(Totals(plan).tensors, "tensor"), HumanBytes(report.bytes_written), report.seconds,
                              HumanRate(rate), HumanBytes(report.peak_memory_bytes)));
  PrintReportLine(fmt::format("wrote {}", options.destination));
}

// At rank 0.
llvm::Expected<PlannedRun> Prepare(ReadableFileSystem& files, const SynthOptions& options) {
  OpenedSpec spec;
  llvm::Expected<Compiled> compiled = CompileSynthetic(files, options, spec);
  if (spec != nullptr) ShowDiagnostics(*spec, options.conversion.json);
  if (!compiled) return compiled.takeError();
  return PlannedRun{std::move(compiled->plan), kSyntheticFolder};
}

llvm::Error RunSynth(const SynthOptions& options, RunWatch& watch, Communicator& ranks) {
  FileSystem& files = watch.files();
  UCP_ASSIGN_OR_RETURN(const PlannedRun run,
                       ShareRun(ranks, ranks.rank() == 0 ? Prepare(files, options) : PlannedRun{}));
  // Every rank computes what it writes; what fails here does so on all, for they have the same plan.
  UCP_ASSIGN_OR_RETURN(std::vector<SyntheticFile> made_up, FilesToRead(run.plan));
  SyntheticFileSystem with_made_up(files, std::move(made_up));
  UCP_ASSIGN_OR_RETURN(WatchedOutcome outcome, ConvertWatched(with_made_up, run, options.conversion, watch, ranks));
  if (ranks.rank() == 0) Print(run, outcome, options.conversion, watch);
  return llvm::Error::success();
}

void AddTrainingOptions(CLI::App& command, SynthOptions& options) {
  command
      .add_option("--parameters", options.parameters,
                  "The parameters in the order in which the optimizer is given them, one name a line, groups apart by "
                  "an empty line (default: one group, in the order of the spec)")
      ->type_name("FILE");
  command
      .add_option("--tied-layer", options.tied,
                  "The first layer of a pipeline that is the tied module KEY (default: 1, as in Megatron-DeepSpeed)")
      ->type_name("KEY=N")
      ->allow_extra_args(false);
  command.add_option("--tag", options.tag, "The checkpoint's own name, and its folder in OUT (default: global_step1)")
      ->check(FolderName())
      ->type_name("NAME");
  command
      .add_option("--ds-config", options.ds_config,
                  "The configuration of the job that will load it, for `deepspeed` (default: a plain one)")
      ->type_name("FILE");
}

}  // namespace

void AddSynthCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command = app.add_subcommand(
      "synth", "Write a checkpoint of any size whose every element can be computed, for tests and benchmarks.");
  command->footer(
      "  ucprun synth gpt.ucp out/ --to deepspeed:tp=2,pp=2,dp=2,zero=1 \\\n"
      "      --set layers=4 --set hidden=64 …\n"
      "  ucprun verify out/ --synth --spec gpt.ucp\n"
      "\n"
      "`verify` looks at every element of it, or of what it was converted to.");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue")->required();
  AddDestination(*command, options->conversion);
  command
      ->add_option("--to", options->target,
                   "Its format, and the ranks it is for: deepspeed:tp=2,dp=4,zero=1, universal, safetensors")
      ->type_name("STRATEGY")
      ->required();
  AddSpecOptions(*command, options->source, /*has_checkpoint=*/false);
  AddTrainingOptions(*command, *options);
  AddConversionOptions(*command, options->conversion);
  options->conversion.has_source = false;
  command->callback([options, &exit_code] {
    options->conversion.watch.inputs = {options->source.spec, options->source.config, options->parameters,
                                        options->ds_config};
    exit_code = RunWatched(RealFileSystem(), options->conversion,
                           [&](RunWatch& watch, Communicator& ranks) { return RunSynth(*options, watch, ranks); });
  });
}

}  // namespace ucp
