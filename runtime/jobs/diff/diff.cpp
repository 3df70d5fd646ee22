#include "runtime/jobs/diff/diff.h"

#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/difference/compare_checkpoints.h"
#include "runtime/engine/buffers.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/resources/resident_memory.h"
#include "runtime/same_states/source_digests.h"

namespace ucp {
namespace {

llvm::Expected<DiffSide> Open(ReadableFileSystem& files, const DiffRequest& asked, const std::string& path,
                              const llvm::GlobPattern& names, const JobHooks& hooks) {
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, path));
  UCP_ASSIGN_OR_RETURN(SourceRequest request, asked.source.Request());
  UCP_ASSIGN_OR_RETURN(request, RequestAt(files, std::move(request), path));
  OpenedSpec spec;
  request.opened = &spec;
  llvm::Expected<Compiled> compiled = CompileWholeStates(files, request, ReplicaPolicy::kTrust);
  if (spec != nullptr) hooks.bound(*spec);
  if (!compiled) return compiled.takeError();
  const BoundSource& source = compiled->source;
  DiffSide side{
      source.folder, source.identity, std::move(compiled->plan), {}, false, {}, TrainingOf(source.checkpoint)};
  side.tensors = WholeTensorsOf(side.plan, source.checkpoint);
  side.holds_weights_alone = HoldsWeightsAlone(side.tensors);
  std::erase_if(side.tensors, [&](const WholeTensor& tensor) { return !names.match(tensor.name); });
  if (!asked.read_all) {
    UCP_ASSIGN_OR_RETURN(side.digests, FindStoredDigests(files, path, source.checkpoint.inventory));
  }
  return side;
}

bool AreSameByDigest(const DiffSide& a, const DiffSide& b, const TensorPair& tensor, const StatePair& pair) {
  if (pair.a->name != pair.b->name) return false;
  auto of_a = a.digests.find({tensor.a->name, pair.a->name});
  auto of_b = b.digests.find({tensor.b->name, pair.b->name});
  return of_a != a.digests.end() && of_b != b.digests.end() && of_a->second.dtype == of_b->second.dtype &&
         of_a->second.digest == of_b->second.digest;
}

// Pairs the states of two checkpoints that are to be compared; the report points into both sides.
llvm::Expected<DiffReport> Pair(const DiffRequest& asked, const DiffSide& a, const DiffSide& b,
                                std::vector<StatePair>& compared) {
  DiffReport report{asked.source.path, asked.other, {}};
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
              asked.tensor);
}

}  // namespace

llvm::Expected<DiffOutcome> Diff(const DiffRequest& request, ExecutionOptions execution, const JobHooks& hooks) {
  ReadableFileSystem& files = RealFiles();
  llvm::Expected<llvm::GlobPattern> names = llvm::GlobPattern::create(request.tensor);
  if (!names) {
    return Fail(ErrorCode::kUsage, "`{}` is not a valid pattern for names: {}", request.tensor,
                llvm::toString(names.takeError()));
  }
  // Where only some tensors are asked for, the others in their records are not read for a checksum.
  if (request.tensor != "*") execution.verify_source_crc = false;
  UCP_ASSIGN_OR_RETURN(DiffSide first, Open(files, request, request.source.path, *names, hooks));
  UCP_ASSIGN_OR_RETURN(DiffSide second, Open(files, request, request.other, *names, hooks));
  DiffOutcome outcome{
      std::make_unique<const DiffSide>(std::move(first)), std::make_unique<const DiffSide>(std::move(second)), {}};
  const DiffSide& a = *outcome.a;
  const DiffSide& b = *outcome.b;
  UCP_RETURN_IF_ERROR(CountResidentMemory({.bytes = MemoryToCompare(a.plan, b.plan, std::max(execution.threads, 1U)),
                                           .plan_bytes = PlanBytes(a.plan) + PlanBytes(b.plan)},
                                          execution));
  std::vector<StatePair> compared;
  UCP_ASSIGN_OR_RETURN(outcome.report, Pair(request, a, b, compared));
  execution.progress = hooks.begin_progress();
  UCP_ASSIGN_OR_RETURN(const std::vector<Difference> differences,
                       CompareCheckpoints(files, {a.plan, a.folder}, {b.plan, b.folder}, compared, execution));
  outcome.report.read = {a.identity, b.identity};
  if (request.tensor == "*") {
    outcome.report.settings =
        CompareSettings(outcome.report.a, a.training.settings, outcome.report.b, b.training.settings);
  }
  auto next = differences.begin();
  for (TensorOutcome& tensor : outcome.report.tensors) {
    for (StateOutcome& state : tensor.states) {
      if (HasBoth(state.pair) && !state.is_same_by_digest) state.difference = *next++;
    }
  }
  return outcome;
}

}  // namespace ucp
