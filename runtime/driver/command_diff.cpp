// `ucprun diff`: by how much two checkpoints differ, tensor by tensor, whichever way each is cut.
#include <fmt/format.h>
#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <memory>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/progress_line.h"
#include "runtime/command_line/work_options.h"
#include "runtime/convert/held_memory.h"
#include "runtime/difference/compare_checkpoints.h"
#include "runtime/driver/commands.h"
#include "runtime/jobs/diff_report.h"
#include "runtime/jobs/source_digests.h"
#include "runtime/jobs/stored_digests.h"
#include "runtime/executor/buffers.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

struct DiffOptions {
  SourceTexts source;
  std::string other;
  std::string tensor = "*";
  bool read_all = false;
  WorkOptions work;
};

struct Side {
  std::string folder;
  CheckpointIdentity identity;
  Plan plan;
  std::vector<WholeTensor> tensors;  // That are asked for.
  bool holds_weights_alone = false;  // Of all.
  StoredDigests digests;
};

llvm::Expected<Side> Open(ReadableFileSystem& files, const DiffOptions& options, const std::string& path,
                          const llvm::GlobPattern& names) {
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, path));
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  UCP_ASSIGN_OR_RETURN(request, RequestAt(files, std::move(request), path));
  SourcePhase phase;
  llvm::Expected<Plan> plan = PlanWholeStates(files, request, phase, ReplicaPolicy::kTrust);
  if (phase.spec != nullptr) ShowDiagnostics(*phase.spec, options.work.json);
  if (!plan) return plan.takeError();
  Side side{phase.folder, phase.identity, std::move(*plan), {}, false, {}};
  side.tensors = WholeTensorsOf(side.plan, phase.checkpoint);
  side.holds_weights_alone = HoldsWeightsAlone(side.tensors);
  std::erase_if(side.tensors, [&](const WholeTensor& tensor) { return !names.match(tensor.name); });
  if (!options.read_all) {
    UCP_ASSIGN_OR_RETURN(side.digests, FindStoredDigests(files, path, phase.checkpoint.inventory));
  }
  return side;
}

bool AreSameByDigest(const Side& a, const Side& b, const TensorPair& tensor, const StatePair& pair) {
  if (pair.a->name != pair.b->name) return false;
  auto of_a = a.digests.find({tensor.a->name, pair.a->name});
  auto of_b = b.digests.find({tensor.b->name, pair.b->name});
  return of_a != a.digests.end() && of_b != b.digests.end() && of_a->second.dtype == of_b->second.dtype &&
         of_a->second.digest == of_b->second.digest;
}

// What of two checkpoints is to be compared; the report points into both sides.
llvm::Expected<DiffReport> Pair(const DiffOptions& options, const Side& a, const Side& b,
                                std::vector<StatePair>& compared) {
  DiffReport report{options.source.path, options.other, {}};
  for (TensorPair& pair : PairStates({a.tensors, a.holds_weights_alone}, {b.tensors, b.holds_weights_alone})) {
    TensorOutcome outcome{std::move(pair), {}};
    for (const StatePair& states : outcome.pair.states) {
      const bool is_same = HasBoth(states) && AreSameByDigest(a, b, outcome.pair, states);
      if (HasBoth(states) && !is_same) compared.push_back(states);
      outcome.states.push_back({states, is_same, {}});
    }
    report.tensors.push_back(std::move(outcome));
  }
  if (!report.tensors.empty()) return report;
  return Fail(ErrorCode::kUsage, "no tensor of `{}` or `{}` has a name that fits `{}`", report.a, report.b,
              options.tensor);
}

llvm::Expected<int> Diff(const DiffOptions& options) {
  FileSystem& files = RealFileSystem();
  llvm::Expected<llvm::GlobPattern> names = llvm::GlobPattern::create(options.tensor);
  if (!names) {
    return Fail(ErrorCode::kUsage, "`{}` is no pattern for names: {}", options.tensor,
                llvm::toString(names.takeError()));
  }
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, ExecutionOptionsFrom(options.work));
  // Where only some tensors are asked for, the others in their records are not read for a checksum.
  if (options.tensor != "*") execution.verify_source_crc = false;
  UCP_ASSIGN_OR_RETURN(const Side a, Open(files, options, options.source.path, *names));
  UCP_ASSIGN_OR_RETURN(const Side b, Open(files, options, options.other, *names));
  UCP_RETURN_IF_ERROR(CountHeldMemory({.bytes = MemoryToCompare(a.plan, b.plan, std::max(execution.threads, 1U)),
                                       .plan_bytes = PlanBytes(a.plan) + PlanBytes(b.plan)},
                                      execution));
  std::vector<StatePair> compared;
  UCP_ASSIGN_OR_RETURN(DiffReport report, Pair(options, a, b, compared));
  std::vector<Difference> differences;
  {
    ProgressLine progress;
    execution.progress = [&progress](const ExecutionProgress& now) { progress.Show(now); };
    UCP_ASSIGN_OR_RETURN(differences,
                         CompareCheckpoints(files, {a.plan, a.folder}, {b.plan, b.folder}, compared, execution));
  }
  report.read = {a.identity, b.identity};
  auto next = differences.begin();
  for (TensorOutcome& tensor : report.tensors) {
    for (StateOutcome& state : tensor.states) {
      if (HasBoth(state.pair) && !state.is_same_by_digest) state.difference = *next++;
    }
  }
  if (options.work.json) {
    UCP_RETURN_IF_ERROR(PrintJsonBy([&](llvm::json::OStream& json) { WriteDiff(report, json); }));
  } else {
    for (const std::string& line : DiffLines(report)) PrintReportLine(line);
  }
  return Differs(report) ? kFoundDifference : 0;
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
      "What the manifests of both say to be the same is not read. Exit code 3 if anything differs.");
  command->add_option("A", options->source.path, "A folder that a conversion or a training run wrote")->required();
  command->add_option("B", options->other, "Another one")->required();
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits; one must")->type_name("GLOB");
  command->add_flag("--read-all", options->read_all, "Read what the manifests of both say to be the same, too");
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
    auto code = Diff(*options);
    exit_code = code ? *code : ShowError("ucprun", code.takeError(), options->work.json);
  });
}

}  // namespace ucp
