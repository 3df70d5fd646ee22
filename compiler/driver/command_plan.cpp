#include <memory>

#include "compiler/driver/command_line.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/plan_report.h"
#include "compiler/driver/terminal.h"
#include "compiler/driver/write_file.h"
#include "compiler/plan/codec.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct PlanOptions {
  SourceOptions source;
  std::string target;
  std::string output;
  TargetOptions target_options;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  bool json = false;
};

llvm::Error MakePlanFile(const PlanOptions& options) {
  Compilation compilation;
  CompileRequest request;
  UCP_ASSIGN_OR_RETURN(request.source, options.source.Request());
  request.target = options.target;
  options.target_options.ApplyTo(request);
  request.replicas = options.replicas;
  llvm::Error error = Compile(RealFileSystem(), request, compilation);
  if (compilation.source.spec != nullptr) ShowDiagnostics(*compilation.source.spec, options.json);
  if (error) return error;
  if (!options.output.empty()) {
    UCP_ASSIGN_OR_RETURN(std::string bytes, EncodePlan(compilation.plan));
    UCP_RETURN_IF_ERROR(WriteFileWhole(options.output, bytes, "the plan"));
  }
  if (options.json) {
    PrintJson(PlanReportJson(compilation.plan));
  } else {
    for (const std::string& line : PlanReport(compilation.plan)) PrintLine(line);
  }
  return llvm::Error::success();
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Compile a conversion into a verified plan, from headers alone, and say what it will cost.");
  command->footer(
      "  ucpc plan gpt.ucp --from checkpoints/ --to universal -o run.plan\n"
      "  ucpc plan --from checkpoints/ --to universal        (no tensor parallelism: no spec)");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue");
  command->add_option("--from", options->source.path, "The source checkpoint")->type_name("DIR")->required();
  command
      ->add_option("--to", options->target,
                   "The target: universal, universal:mp=N, safetensors:dtype=bf16, or deepspeed:dp=8,zero=1,…")
      ->type_name("STRATEGY")
      ->required();
  command
      ->add_option("-o,--output", options->output, "Where to write the plan; without it, only the numbers are printed")
      ->type_name("FILE");
  AddTargetOptions(*command, options->target_options);
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddReplicasOption(*command, options->replicas);
  command->add_flag("--json", options->json, "The numbers as JSON");
  command->callback([options, &exit_code] {
    if (llvm::Error error = MakePlanFile(*options)) exit_code = ShowError("ucpc", std::move(error), options->json);
  });
}

}  // namespace ucp
