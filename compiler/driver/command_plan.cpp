#include <algorithm>
#include <memory>
#include <thread>

#include "compiler/catalogue/find_strategy.h"
#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/command_line/write_file.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/plan_again.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/plan_cost.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/plan/codec.h"
#include "compiler/plan/envelope.h"
#include "compiler/plan/plan_report.h"
#include "compiler/strategies/rank_strategies.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/synthetic/planned_source.h"

namespace ucp {
namespace {

struct PlanOptions {
  SourceTexts source;
  std::string target;
  std::string output;
  bool force = false;
  TargetSettings target_options;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  std::string bandwidth;
  std::int64_t nodes = 1;
  bool json = false;
};

llvm::Expected<CostQuestion> QuestionOf(const PlanOptions& options, bool is_strategy) {
  CostQuestion question{0, options.nodes};
  if (options.bandwidth.empty() && options.nodes == 1) return question;
  if (!is_strategy) {
    return Fail(ErrorCode::kUsage,
                "--bandwidth and --nodes are for what `--from STRATEGY` would cost; `{}` is a checkpoint",
                options.source.path);
  }
  if (options.bandwidth.empty()) return question;
  std::string_view text = options.bandwidth;
  if (text.ends_with("/s")) text.remove_suffix(2);
  std::optional<std::uint64_t> bytes = ParseByteCount(text);
  if (!bytes) return Fail(ErrorCode::kUsage, "--bandwidth takes a rate such as 2GB/s, not `{}`", options.bandwidth);
  question.bytes_per_second = *bytes;
  return question;
}

// From a checkpoint's headers, or from what ranks of a strategy would have saved.
llvm::Expected<Compiled> CompileFrom(ReadableFileSystem& files, const CompileRequest& request, bool is_strategy) {
  if (!is_strategy) return Compile(files, request);
  UCP_ASSIGN_OR_RETURN(BoundSource source, BindStrategy(files, request));
  return CompileBound(files, request, std::move(source));
}

// `6gpus` becomes a strategy, and the report lists all that are possible.
llvm::Expected<std::vector<std::string>> ChooseTarget(ReadableFileSystem& files, CompileRequest& request,
                                                      bool is_strategy) {
  if (is_strategy && GpusOf(request.target)) {
    return Fail(ErrorCode::kUsage, "`{}` is for a checkpoint; name the strategy that `--from {}` is converted to",
                request.target, request.source.path);
  }
  const CompileRequest of_source = request;
  return ChooseStrategy(files, of_source, true, request.target);
}

// Those of the processors that this process may use. More than a few find nothing to do but reading headers.
unsigned ThreadsToPlan() {
  constexpr unsigned kMostThreads = 16;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
}

// Where the plan goes, if anywhere.
llvm::Expected<std::optional<OutputPlace>> PlaceOf(const PlanOptions& options) {
  if (options.output.empty()) return std::nullopt;
  return PlaceOutput({.path = options.output,
                      .what = "the plan",
                      .begins = kPlanName,
                      .force = options.force,
                      .inputs = {options.source.spec, options.source.config, options.target_options.job_config}});
}

llvm::Error MakePlanFile(const PlanOptions& options) {
  ReadableFileSystem& files = RealFiles();
  CompileRequest request;
  UCP_ASSIGN_OR_RETURN(request.source, options.source.Request());
  request.target = options.target;
  request.settings = options.target_options;
  request.replicas = options.replicas;
  request.threads = request.source.threads = ThreadsToPlan();
  UCP_ASSIGN_OR_RETURN(bool is_strategy, IsStrategy(files, request.source.path, request.source.spec));
  UCP_ASSIGN_OR_RETURN(CostQuestion question, QuestionOf(options, is_strategy));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> choice, ChooseTarget(files, request, is_strategy));
  UCP_ASSIGN_OR_RETURN(PlanInputs inputs, ReadInputs(files, request));
  request.source.given = &inputs;
  UCP_ASSIGN_OR_RETURN(const std::optional<OutputPlace> place, PlaceOf(options));
  OpenedSpec spec;
  request.source.opened = &spec;
  llvm::Expected<Compiled> compiled = CompileFrom(files, request, is_strategy);
  if (spec != nullptr) ShowDiagnostics(*spec, options.json);
  if (!compiled) return compiled.takeError();
  compiled->plan.remarks.insert(compiled->plan.remarks.end(), choice.begin(), choice.end());
  std::uint64_t plan_bytes = 0;
  if (place || is_strategy) {
    CompleteInputs(request, compiled->source, inputs);
    UCP_ASSIGN_OR_RETURN(std::string bytes, EncodePlan(compiled->plan, &inputs));
    plan_bytes = bytes.size();
    if (place) UCP_RETURN_IF_ERROR(WriteOutput(*place, bytes));
  }
  if (place && place->kind == OutputPlace::Kind::kStandardOutput) return llvm::Error::success();
  if (options.json) {
    llvm::json::Object report = PlanReportJson(compiled->plan);
    if (!is_strategy) report["checkpoint"] = IdentityJson(compiled->source.identity);
    if (is_strategy) AddCost(*compiled, plan_bytes, question, report);
    PrintJson(std::move(report));
    return llvm::Error::success();
  }
  if (!is_strategy) {
    for (const std::string& line : IdentityLines(compiled->source.identity)) PrintReportLine(line);
  }
  for (const std::string& line : PlanReport(compiled->plan)) PrintReportLine(line);
  if (!is_strategy) return llvm::Error::success();
  for (const std::string& line : CostReport(*compiled, plan_bytes, question)) PrintReportLine(line);
  return llvm::Error::success();
}

void AddCostOptions(CLI::App& command, PlanOptions& options) {
  command
      .add_option("--bandwidth", options.bandwidth,
                  "With a strategy as the source: how much a node reads and writes in a second, such as 2GB/s")
      ->type_name("RATE");
  command.add_option("--nodes", options.nodes, "With a strategy as the source: over how many nodes the work is spread")
      ->check(WholeNumber(1, kMostRanks))
      ->type_name("N");
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Compile a conversion into a verified plan, from headers alone, and say what it will cost.");
  command->footer(
      "  ucpc plan gpt.ucp --from checkpoints/ --to universal -o run.plan\n"
      "  ucpc plan --from checkpoints/ --to universal    no tensor parallelism: no spec\n"
      "\n"
      "The cost of a conversion, without a checkpoint:\n"
      "  ucpc plan gpt.ucp --from deepspeed:tp=8,pp=16,dp=8,zero=1 \\\n"
      "      --to deepspeed:tp=4,pp=32,dp=16,zero=1 --set layers=128 … \\\n"
      "      --bandwidth 2GB/s --nodes 16");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue");
  command->add_option("--from", options->source.path, "The source checkpoint, or with a spec the strategy of one")
      ->transform(MemoryJobs())
      ->type_name("DIR|STRATEGY")
      ->required();
  command
      ->add_option("--to", options->target,
                   "The target: universal, universal:mp=N, safetensors:dtype=bf16, deepspeed:dp=8,zero=1,…, or "
                   "6gpus, which lists the strategies of 6 ranks")
      ->type_name("STRATEGY")
      ->required();
  command
      ->add_option("-o,--output", options->output, "Where to write the plan; without it, only the numbers are printed")
      ->type_name("FILE");
  AddForceOption(*command, "-o", options->force);
  AddTargetOptions(*command, options->target_options);
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddReplicasOption(*command, options->replicas);
  AddCostOptions(*command, *options);
  command->add_flag("--json", options->json, "The numbers as JSON");
  command->callback([options, &exit_code] {
    if (llvm::Error error = MakePlanFile(*options)) exit_code = ShowError("ucpc", std::move(error), options->json);
  });
}

}  // namespace ucp
