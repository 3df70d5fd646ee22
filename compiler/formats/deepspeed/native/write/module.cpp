#include "compiler/formats/deepspeed/native/write/module.h"

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {

LogicalTensor::State ModuleState(const LogicalTensor& tensor, const WriteOptions& options) {
  // Frozen parameters and buffers keep their type, which can be another than that of the trained ones.
  if (tensor.kind != TensorKind::kParameter) return tensor.states.front();
  const bool is_master = options.stage == 0 && options.wrapper == WholeWrapper::kNone;
  return {is_master ? kMasterState : kWeightState, options.dtype};
}

void ModuleToWrite::AddVector(const FlatGroupToWrite& group) {
  const std::size_t record = composer_.tensors_to_come();
  const pytorch::ValuePtr vector = composer_.AddTensor(options_.dtype, {group.elements});
  for (const PlacedParameter& parameter : group.parameters) {
    pytorch::Tensor view = *vector->As<pytorch::Tensor>();
    view.offset = parameter.offset;
    view.sizes = parameter.shape;
    view.strides = pytorch::ContiguousStrides(parameter.shape);
    in_vectors_[parameter.tensor] = {pytorch::MakeTensor(std::move(view)), parameter.offset, group.elements, record};
  }
}

llvm::Expected<pytorch::ValuePtr> ModuleToWrite::Add(const LogicalTensor& tensor, const Coordinate& coordinate) {
  const TensorLayout& layout = *request_.layout.Find(tensor.name);
  UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(layout, request_.layout.mesh, coordinate));
  Added added{&tensor, ModuleState(tensor, options_), coordinate, set.LocalShape(), 0, set.local_elements(), 0};
  auto in_vector = in_vectors_.find(&tensor);
  if (in_vector != in_vectors_.end()) {
    added.base = in_vector->second.base;
    added.elements = in_vector->second.elements;
    added.record = in_vector->second.record;
    added_.push_back(std::move(added));
    return in_vector->second.view;
  }
  added.record = composer_.tensors_to_come();
  added_.push_back(std::move(added));
  return composer_.AddTensor(added_.back().state.dtype, added_.back().shape);
}

pytorch::ValuePtr ModuleToWrite::AddPlaceholder(const LogicalTensor& tensor) {
  pytorch::ValuePtr& placeholder = placeholders_[ModuleState(tensor, options_).dtype];
  if (!placeholder) placeholder = composer_.AddTensor(ModuleState(tensor, options_).dtype, {0});
  return placeholder;
}

void ModuleToWrite::AddShards(const std::vector<RecordId>& records, TargetFiles& target) const {
  for (const Added& added : added_) {
    Buffer buffer;
    buffer.dtype = added.state.dtype;
    buffer.part_elements = added.elements;
    buffer.parts.push_back({records[added.record], 0, added.elements});
    Shard shard;
    shard.tensor = added.tensor->name;
    shard.kind = added.tensor->kind;
    shard.coordinate = added.coordinate;
    shard.shape = added.shape;
    shard.base = added.base;
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
