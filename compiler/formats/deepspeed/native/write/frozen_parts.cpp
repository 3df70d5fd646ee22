#include "compiler/formats/deepspeed/native/write/frozen_parts.h"

#include "compiler/formats/deepspeed/native/write/zero3_optimizer.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {

using pytorch::Entry;
using pytorch::MakeText;

llvm::Expected<std::vector<Entry>> FrozenPartsToWrite::Add(const std::vector<const LogicalTensor*>& held,
                                                           std::vector<Entry>& shapes, ArchiveComposer& composer) {
  const bool is_first = parameters_.empty();
  first_record_ = composer.tensors_to_come();
  std::vector<Entry> parts;
  for (const LogicalTensor* tensor : held) {
    if (tensor->kind != TensorKind::kFrozen) continue;
    UCP_ASSIGN_OR_RETURN(ProductSet set,
                         HeldAt(*request_.layout.Find(tensor->name), request_.layout.mesh, coordinate_));
    const DType dtype = tensor->states.front().dtype;
    const std::int64_t elements = set.local_elements();
    if (is_first) parameters_.push_back({{tensor->name, tensor, set.LocalShape(), 0, elements, 0}, dtype, {}});
    shapes.push_back({MakeText(tensor->name), pytorch::MakeTorchSize(set.LocalShape())});
    parts.push_back({MakeText(tensor->name), composer.AddTensor(dtype, {CeilDivide(elements, options_.dp)})});
  }
  return parts;
}

void FrozenPartsToWrite::AddRecords(const std::vector<RecordId>& records) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].records.push_back(records[first_record_ + i]);
}

void FrozenPartsToWrite::AddShards(TargetFiles& target) const {
  for (const Parameter& parameter : parameters_) {
    Buffer buffer = PartitionedBuffer(parameter.dtype, parameter.records, {&parameter.placed, 1}, target);
    Shard shard;
    shard.tensor = parameter.placed.tensor->name;
    shard.kind = TensorKind::kFrozen;
    shard.coordinate = coordinate_;
    shard.shape = parameter.placed.shape;
    shard.spread = Spread::kEachTensor;
    shard.states = target.storage.Add(BufferSet{{kWeightState, target.storage.Add(std::move(buffer))}});
    target.storage.shards.push_back(std::move(shard));
  }
}

}  // namespace ucp::deepspeed
