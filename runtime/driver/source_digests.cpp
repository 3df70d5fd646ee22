#include "runtime/driver/source_digests.h"

#include <utility>

#include "compiler/phases/compile.h"
#include "compiler/phases/loose_states.h"
#include "compiler/phases/whole_states.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"
#include "runtime/convert/held_memory.h"
#include "runtime/io/discarding_file_system.h"

namespace ucp {

llvm::Expected<Plan> PlanWholeStates(FileSystem& files, const SourceRequest& request, SourcePhase& phase,
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

llvm::Expected<PlannedRun> ShareWholeStates(FileSystem& files, const SourceRequest& request,
                                            const ExecutionOptions& options, SourcePhase& phase,
                                            FilesOfAllRanks* nodes) {
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  auto make = [&]() -> llvm::Expected<PlannedRun> {
    UCP_ASSIGN_OR_RETURN(Plan plan, PlanWholeStates(files, request, phase));
    return PlannedRun{std::move(plan), phase.folder, {}};
  };
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareRun(ranks, ranks.rank() == 0 ? make() : PlannedRun{}));
  if (nodes != nullptr) UCP_RETURN_IF_ERROR(nodes->Locate(run.source_folder, run.plan.source.files));
  return run;
}

llvm::Expected<ExecutionReport> DigestSource(FileSystem& files, const SourceRequest& request,
                                             const ExecutionOptions& options, SourcePhase& phase,
                                             FilesOfAllRanks* nodes) {
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareWholeStates(files, request, options, phase, nodes));
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  ExecutionOptions execution = options;
  UCP_RETURN_IF_ERROR(Agree(ranks, CountHeldMemory(run.plan, nodes, execution)));
  std::unique_ptr<FileSystem> nowhere = MakeDiscardingFileSystem(files);
  return Execute(run.plan, run.source_folder, "", *nowhere, execution);
}

}  // namespace ucp
