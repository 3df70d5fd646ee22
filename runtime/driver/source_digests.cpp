#include "runtime/driver/source_digests.h"

#include <fmt/format.h>

#include "compiler/driver/compile.h"
#include "compiler/driver/loose_states.h"
#include "compiler/planner/join.h"
#include "compiler/planner/planner.h"
#include "compiler/support/error.h"
#include "runtime/io/discarding_file_system.h"

namespace ucp {
namespace {

// Every tensor whole, each state in a file of its own.
TargetFiles OneFileForEachState(const std::vector<LogicalTensor>& tensors) {
  TargetFiles target;
  for (const LogicalTensor& tensor : tensors) {
    const std::int64_t elements = ProductSet::Whole(tensor.shape).local_elements();
    BufferSet states;
    for (const LogicalTensor::State& state : tensor.states) {
      auto bytes = static_cast<std::uint64_t>(elements * ItemBytes(state.dtype));
      FileId file = target.storage.Add(StoredFile{fmt::to_string(target.storage.files.size()), bytes, ""});
      RecordId record = target.storage.Add(Record{file, 0, bytes, std::nullopt});
      states.push_back({state.name, target.storage.Add(Buffer{state.dtype, elements, {{record, 0, elements}}})});
    }
    target.storage.shards.push_back(
        {tensor.name, tensor.kind, {}, tensor.shape, {}, 0, Spread::kAcrossBuffer, target.storage.Add(states)});
  }
  return target;
}

}  // namespace

llvm::Expected<ExecutionReport> DigestSource(FileSystem& files, const SourceRequest& request,
                                             const ExecutionOptions& options, SourcePhase& phase) {
  UCP_RETURN_IF_ERROR(DescribeAndBind(files, request, phase));
  const Inventory& inventory = phase.checkpoint.inventory;
  AddLooseShards(phase.checkpoint);
  AddLooseTensors(phase.checkpoint.training, phase.layout);
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(phase.layout, inventory));
  UCP_ASSIGN_OR_RETURN(Layout held, HeldBySource(phase));
  UCP_ASSIGN_OR_RETURN(Layout atomic, AtomicLayout(phase.layout));
  TargetFiles target = OneFileForEachState(tensors);
  UCP_ASSIGN_OR_RETURN(Plan plan, MakePlan({held, inventory, atomic, tensors, target, ""}));
  std::unique_ptr<FileSystem> nowhere = MakeDiscardingFileSystem(files);
  return Execute(plan, phase.folder, "", *nowhere, options);
}

}  // namespace ucp
