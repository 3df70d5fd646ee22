#include "runtime/formats/deepspeed/write_module.h"

#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {

llvm::Expected<pytorch::ValuePtr> ModuleToWrite::Add(const LogicalTensor& tensor, const Coordinate& coordinate) {
  const TensorLayout& layout = *request_.layout.Find(tensor.name);
  UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(layout, request_.layout.mesh, coordinate));
  // Frozen parameters and buffers keep their type, which can be another than that of the trained ones.
  LogicalTensor::State state = tensor.states.front();
  if (tensor.kind == TensorKind::kParameter) state = {kWeightState, options_.dtype};
  added_.push_back({&tensor, state, coordinate, set.LocalShape(), set.local_elements()});
  return composer_.AddTensor(state.dtype, set.LocalShape());
}

void ModuleToWrite::AddShards(const std::vector<RecordId>& records, TargetFiles& target) const {
  for (std::size_t i = 0; i < added_.size(); ++i) {
    const Added& added = added_[i];
    Buffer buffer;
    buffer.dtype = added.state.dtype;
    buffer.part_elements = added.elements;
    buffer.parts.push_back({records[i], 0, added.elements});
    Shard shard;
    shard.tensor = added.tensor->name;
    shard.kind = added.tensor->kind;
    shard.coordinate = added.coordinate;
    shard.shape = added.shape;
    shard.states = target.storage.Add(BufferSet{{added.state.name, target.storage.Add(std::move(buffer))}});
    target.storage.shards.push_back(std::move(shard));
  }
}

std::vector<pytorch::Entry> ModuleExtras(const TrainingState& training, const WriteOptions& options, std::int64_t mp) {
  if (std::ssize(training.ranks) == options.mp()) return training.ranks[static_cast<std::size_t>(mp)].module_extras;
  std::vector<pytorch::Entry> extras;
  for (const RankState& source : training.ranks) {
    for (const pytorch::Entry& entry : source.module_extras) {
      auto name = pytorch::AsText(*entry.key);
      if (name && !FindEntry(extras, *name)) extras.push_back(entry);
    }
  }
  return extras;
}

}  // namespace ucp::deepspeed
