// `ucprun trace`: where one element of a checkpoint lies, and where a conversion takes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/whole_states.h"
#include "compiler/formats/identity.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/plan_file/plan_file.h"
#include "runtime/trace/trace_report.h"

namespace ucp {
namespace {

struct TraceOptions {
  SourceTexts source;
  std::string element;
  std::string plan;
  std::string target;
  TargetSettings target_options;
  bool json = false;
};

// The plan that is traced, and its folder. `layout` is empty where the plan comes from a file.
struct Traced {
  std::string folder;
  CheckpointIdentity identity;
  Layout layout;
  Plan plan;
};

llvm::Error TakePlanFile(ReadableFileSystem& files, const TraceOptions& options, Traced& traced) {
  const SourceTexts& source = options.source;
  if (!options.target.empty() || !source.spec.empty() || !source.set.empty() || !source.config.empty() ||
      !source.unused.empty() || !source.drop_states.empty() || !source.prefer_rank.empty()) {
    return Fail(ErrorCode::kUsage,
                "--plan FILE has all of a conversion in it: it goes with neither --to nor an option that says what the "
                "source is");
  }
  UCP_ASSIGN_OR_RETURN(PlanWithInputs file, ReadPlanFile(files, options.plan));
  UCP_RETURN_IF_ERROR(CheckIsOfCheckpoint(options.plan, file));
  traced.plan = std::move(file.plan);
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(files, source.path, traced.plan.preference));
  traced.folder = checkpoint.inventory.root;
  traced.identity = IdentityOf(checkpoint);
  return CheckIdentity(traced.plan, checkpoint.inventory);
}

llvm::Error PlanHere(ReadableFileSystem& files, const TraceOptions& options, Traced& traced) {
  CompileRequest request;
  UCP_ASSIGN_OR_RETURN(request.source, options.source.Request());
  request.target = options.target;
  request.settings = options.target_options;
  OpenedSpec spec;
  request.source.opened = &spec;
  llvm::Expected<Compiled> compiled =
      options.target.empty() ? CompileWholeStates(files, request.source) : Compile(files, request);
  if (spec != nullptr) ShowDiagnostics(*spec, options.json);
  if (!compiled) return compiled.takeError();
  traced.plan = std::move(compiled->plan);
  traced.folder = compiled->source.folder;
  traced.layout = std::move(compiled->source.layout);
  traced.identity = compiled->source.identity;
  return llvm::Error::success();
}

llvm::Expected<TensorId> FindTensor(const Traced& traced, std::string& name) {
  if (const TensorLayout* layout = traced.layout.Find(name)) name = layout->name;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < traced.plan.tensors.size(); ++i) {
    names.push_back(traced.plan.tensors[i].logical.name);
    if (names.back() == name) return TensorId(i);
  }
  constexpr std::size_t kShown = 3;
  return Fail(ErrorCode::kUsage, "there is no tensor `{}`; the nearest names are `{}`", name,
              fmt::join(NearestNames(name, names, kShown), "`, `"));
}

llvm::Error KeepState(const std::string& tensor, const std::string& state, ElementTrace& trace) {
  if (state.empty()) return llvm::Error::success();
  std::vector<std::string> names;
  for (const TracedState& traced : trace.states) names.push_back(traced.state);
  std::erase_if(trace.states, [&](const TracedState& traced) { return traced.state != state; });
  std::erase_if(trace.written, [&](const WrittenElement& written) { return written.from != state; });
  if (!trace.states.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "tensor `{}` has no state `{}`; it has {}", tensor, state, fmt::join(names, ", "));
}

llvm::Expected<int> Trace(const TraceOptions& options) {
  FileSystem& files = RealFileSystem();
  UCP_ASSIGN_OR_RETURN(ElementName name, ParseElementName(options.element));
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, options.source.path));
  Traced traced;
  UCP_RETURN_IF_ERROR(options.plan.empty() ? PlanHere(files, options, traced) : TakePlanFile(files, options, traced));
  UCP_ASSIGN_OR_RETURN(TensorId tensor, FindTensor(traced, name.tensor));
  UCP_RETURN_IF_ERROR(CheckIndex(name, traced.plan.tensor(tensor).logical.shape));
  UCP_ASSIGN_OR_RETURN(ElementTrace trace, TraceElement(files, traced.folder, traced.plan, tensor, name.index));
  UCP_RETURN_IF_ERROR(KeepState(name.tensor, name.state, trace));
  const bool has_target = !options.plan.empty() || !options.target.empty();
  const TraceReport report{traced.plan, tensor, name.index, std::move(trace), has_target};
  if (options.json) {
    llvm::json::Object json = TraceJson(report);
    json["checkpoint"] = IdentityJson(traced.identity);
    PrintJson(std::move(json));
  } else {
    for (const std::string& line : IdentityLines(traced.identity)) PrintLine(line);
    for (const std::string& line : TraceLines(report)) PrintLine(line);
  }
  return CountDifferences(report.trace) == 0 ? 0 : kFoundDifference;
}

}  // namespace

void AddTraceCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand(
      "trace", "Where one element lies: file, byte and rank of every copy, and where a conversion takes it.");
  command->footer(
      "  ucprun trace checkpoints/ 'blocks.0.up.weight[17,204]'           every copy\n"
      "  ucprun trace checkpoints/ 'blocks.0.up.weight[17,204].exp_avg'   one state\n"
      "  ucprun trace checkpoints/ 'blocks.0.up.weight[17,204]' --to universal\n"
      "  ucprun trace checkpoints/ 'blocks.0.up.weight[17,204]' --plan run.plan\n"
      "\n"
      "Only headers and the bytes of this element are read. Exit code 3 if copies of it differ.");
  command->add_option("CHECKPOINT", options->source.path, "A folder that a conversion or a training run wrote")
      ->transform(MemoryJobs())
      ->required();
  command->add_option("ELEMENT", options->element, "TENSOR[INDEX,…] or TENSOR[INDEX,…].STATE, of the whole tensor")
      ->required();
  command->add_option("--plan", options->plan, "Where this plan takes it: a file that `ucpc plan` wrote")
      ->type_name("FILE");
  command->add_option("--to", options->target, "Where a conversion to this would take it, as for `convert`")
      ->type_name("STRATEGY");
  command->add_option("--spec", options->source.spec, "How tensors are cut, as for `convert`")->type_name("SPEC");
  AddTargetOptions(*command, options->target_options);
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    auto code = Trace(*options);
    exit_code = code ? *code : ShowError("ucprun", code.takeError(), options->json);
  });
}

}  // namespace ucp
