#include "runtime/jobs/source_digests.h"

#include <set>
#include <utility>

#include "compiler/phases/compile.h"
#include "compiler/phases/loose_states.h"
#include "compiler/phases/whole_states.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"
#include "runtime/convert/held_memory.h"
#include "runtime/storage/discarding_file_system.h"

namespace ucp {

llvm::Expected<Plan> PlanWholeStates(ReadableFileSystem& files, const SourceRequest& request, SourcePhase& phase,
                                     ReplicaPolicy replicas) {
  UCP_RETURN_IF_ERROR(DescribeAndBind(files, request, phase));
  const Inventory& inventory = phase.checkpoint.inventory;
  AddLooseShards(phase.checkpoint);
  for (Layout* layout : {&phase.layout, &phase.held}) AddLooseTensors(phase.checkpoint.training, *layout);
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(phase.layout, inventory));
  UCP_ASSIGN_OR_RETURN(Layout atomic, AtomicLayout(phase.layout));
  TargetFiles target;
  target.storage = OneFileForEachState(tensors);
  return MakePlan({phase.held, inventory, atomic, tensors, std::move(target), "", replicas});
}

llvm::Expected<PlannedRun> ShareWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, SourcePhase& phase,
                                            FilesOfAllRanks* nodes) {
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  auto make = [&]() -> llvm::Expected<PlannedRun> {
    UCP_ASSIGN_OR_RETURN(Plan plan, PlanWholeStates(files, request, phase));
    return PlannedRun{std::move(plan), phase.folder, {}, {}, phase.identity};
  };
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareRun(ranks, ranks.rank() == 0 ? make() : PlannedRun{}));
  if (nodes != nullptr) UCP_RETURN_IF_ERROR(nodes->Locate(run.source_folder, run.plan.source.files));
  return run;
}

std::vector<WholeTensor> WholeTensorsOf(const Plan& plan, const Checkpoint& checkpoint) {
  std::set<std::string> loose;
  for (const LooseState& state : checkpoint.training.loose_states) {
    for (const LooseTensor& tensor : state.tensors) loose.insert(tensor.name);
  }
  std::vector<WholeTensor> tensors = WholeTensors(plan);
  for (WholeTensor& tensor : tensors) tensor.is_of_model = !loose.contains(tensor.name);
  return tensors;
}

llvm::Expected<SourceRequest> RequestAt(ReadableFileSystem& files, SourceRequest request, const std::string& path) {
  request.path = path;
  if (request.spec.empty()) return request;
  UCP_ASSIGN_OR_RETURN(const Checkpoint checkpoint, DescribeSource(files, path, request.preference));
  if (!checkpoint.inventory.is_whole) return request;
  request.spec.clear();
  request.config.clear();
  request.set.clear();
  return request;
}

llvm::Expected<DigestedSource> DigestSource(ReadableFileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, SourcePhase& phase,
                                            FilesOfAllRanks* nodes) {
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareWholeStates(files, request, options, phase, nodes));
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  ExecutionOptions execution = options;
  UCP_RETURN_IF_ERROR(Agree(ranks, CountHeldMemory(run.plan, nodes, execution)));
  std::unique_ptr<FileSystem> nowhere = MakeDiscardingFileSystem(files);
  UCP_ASSIGN_OR_RETURN(ExecutionReport report, Execute(run.plan, run.source_folder, "", *nowhere, execution));
  std::vector<WholeTensor> tensors = WholeTensorsOf(run.plan, phase.checkpoint);
  return DigestedSource{std::move(run), std::move(tensors), std::move(report)};
}

}  // namespace ucp
