#include "runtime/driver/whole_plan.h"

#include <fmt/format.h>

#include "compiler/driver/compile.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"

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

llvm::Expected<Plan> PlanOntoWhole(const SourcePhase& phase, ReplicaPolicy replicas) {
  const Inventory& inventory = phase.checkpoint.inventory;
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(phase.layout, inventory));
  UCP_ASSIGN_OR_RETURN(Layout held, HeldBySource(phase));
  UCP_ASSIGN_OR_RETURN(Layout atomic, AtomicLayout(phase.layout));
  const TargetFiles target = OneFileForEachState(tensors);
  return MakePlan({held, inventory, atomic, tensors, target, "", replicas});
}

}  // namespace ucp
