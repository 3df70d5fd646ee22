#include "runtime/same_states/source_digests.h"

#include <set>
#include <utility>

#include "compiler/compile/whole_states.h"
#include "compiler/support/error.h"
#include "runtime/executor/visit_sink.h"
#include "runtime/resources/resident_memory.h"

namespace ucp {
namespace {

// The offset with which the source stores a tensor, and what is added on the way to another layout.
std::map<std::string, std::int64_t> OffsetsOf(const BoundSpec& bound, const Plan& plan) {
  std::map<std::string, std::int64_t> stored;
  for (const BoundTensor& tensor : bound.tensors) {
    const std::int64_t offset = bound.spec.tensors[tensor.declaration].offset;
    if (offset != 0) stored.emplace(tensor.name, offset);
  }
  std::map<std::string, std::int64_t> offsets;
  for (const PlanWrite& write : plan.writes) {
    const PlanTensor& first = plan.tensor(write.first_tensor());
    const auto found = stored.find(first.logical.name);
    const std::int64_t offset = first.arithmetic.offset + (found == stored.end() ? 0 : found->second);
    if (offset != 0) offsets.emplace(plan.NameOf(write), offset);
  }
  return offsets;
}

}  // namespace

llvm::Expected<WholeStatesRun> ShareWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                                const ExecutionOptions& options, FilesOfAllRanks* nodes) {
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  Checkpoint checkpoint;  // At rank 0.
  std::string layout;
  std::map<std::string, std::int64_t> offsets;
  auto make = [&]() -> llvm::Expected<PlannedRun> {
    UCP_ASSIGN_OR_RETURN(Compiled compiled, CompileWholeStates(files, request));
    checkpoint = std::move(compiled.source.checkpoint);
    const std::optional<BoundSpec>& bound = compiled.source.bound;
    if (bound && bound->spec.model) layout = bound->spec.layout_name;
    if (bound) offsets = OffsetsOf(*bound, compiled.plan);
    return PlannedRun{std::move(compiled.plan), compiled.source.folder, {}, {}, compiled.source.identity};
  };
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareRun(ranks, ranks.rank() == 0 ? make() : PlannedRun{}));
  if (nodes != nullptr) UCP_RETURN_IF_ERROR(nodes->Locate(run.source_folder, run.plan.source.files));
  std::vector<WholeTensor> tensors = WholeTensorsOf(run.plan, checkpoint);
  return WholeStatesRun{std::move(run), std::move(tensors), TrainingOf(checkpoint), std::move(layout),
                        std::move(offsets)};
}

std::vector<WholeTensor> WholeTensorsOf(const Plan& plan, const Checkpoint& checkpoint) {
  std::set<std::string> loose;
  for (const LooseState& state : checkpoint.training.loose_states) {
    for (const LooseTensor& tensor : state.tensors) loose.insert(tensor.name);
  }
  std::vector<WholeTensor> tensors = WholeTensorsOf(plan);
  for (WholeTensor& tensor : tensors) tensor.is_of_model = !loose.contains(tensor.name);
  return tensors;
}

llvm::Expected<SourceRequest> RequestAt(ReadableFileSystem& files, SourceRequest request, const std::string& path) {
  request.path = path;
  if (request.spec.empty()) return request;
  UCP_ASSIGN_OR_RETURN(const Checkpoint checkpoint, DescribeSource(files, path, request.preference));
  if (!checkpoint.inventory.is_whole()) return request;
  request.spec.clear();
  request.config.clear();
  request.set.clear();
  return request;
}

llvm::Expected<DigestedSource> DigestSource(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, FilesOfAllRanks* nodes) {
  UCP_ASSIGN_OR_RETURN(WholeStatesRun whole, ShareWholeStates(files, request, options, nodes));
  const PlannedRun& run = whole.run;
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  ExecutionOptions execution = options;
  UCP_RETURN_IF_ERROR(Agree(ranks, CountResidentMemory(run.plan, nodes, execution)));
  UCP_ASSIGN_OR_RETURN(EngineReport report, Visit(run.plan, run.source_folder, files, execution));
  return DigestedSource{std::move(whole.run),    std::move(whole.tensors), std::move(whole.training),
                        std::move(whole.layout), std::move(whole.offsets), std::move(report)};
}

}  // namespace ucp
