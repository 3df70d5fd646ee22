#include "compiler/compile/whole_states.h"

#include <fmt/format.h>

#include "compiler/compile/carried_tensors.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"

namespace ucp {

Storage OneFileForEachState(std::span<const LogicalTensor> tensors) {
  Storage storage;
  for (const LogicalTensor& tensor : tensors) {
    const std::int64_t elements = ProductSet::Whole(tensor.shape).local_elements();
    BufferSet states;
    for (const LogicalTensor::State& state : tensor.states) {
      auto bytes = static_cast<std::uint64_t>(elements * ItemBytes(state.dtype));
      FileId file = storage.Add(StoredFile{fmt::to_string(storage.files.size()), bytes, ""});
      RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
      states.push_back({state.name, storage.Add(Buffer{state.dtype, elements, {{record, 0, elements}}})});
    }
    storage.shards.push_back(
        {tensor.name, tensor.kind, {}, tensor.shape, {}, 0, Spread::kAcrossBuffer, storage.Add(states)});
  }
  return storage;
}

llvm::Expected<Sides> WholeStates::Meet(BoundSource bound) {
  BoundSource source = WithLooseStates(std::move(bound));
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  UCP_ASSIGN_OR_RETURN(Layout whole, AtomicLayout(source.layout));
  if (layout_.empty()) return Sides{std::move(source), std::move(whole), std::move(tensors)};
  std::vector<std::string> unsaid;
  UCP_ASSIGN_OR_RETURN(OtherLayout other, SeeInLayout(source, tensors, layout_, std::nullopt, unsaid));
  return Sides{std::move(source), std::move(whole), std::move(tensors), std::move(other)};
}

llvm::Expected<TargetFiles> WholeStates::LayOut(const Sides& sides) {
  TargetFiles files;
  files.storage = OneFileForEachState(sides.other ? sides.other->tensors : sides.tensors);
  if (sides.other) UCP_RETURN_IF_ERROR(FillPieces(*sides.other, files));
  return files;
}

llvm::Expected<Compiled> CompileWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                            ReplicaPolicy replicas) {
  UCP_ASSIGN_OR_RETURN(BoundSource source, DescribeAndBind(files, request));
  WholeStates target(request.as_layout);
  return CompileInto(target, std::move(source), {.replicas = replicas});
}

TrainingOfCheckpoint TrainingOf(const Checkpoint& checkpoint) {
  const TrainingState& training = checkpoint.training;
  return {SettingsOf(training), training.has_unread_optimizer ? training.absent_optimizer : std::string()};
}

}  // namespace ucp
