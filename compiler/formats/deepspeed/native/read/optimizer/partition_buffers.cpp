#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"

#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

std::string Signature(const SteppedTensor& tensor) {
  std::string text = fmt::format("{} {}", kMasterState, Name(tensor.master.dtype));
  for (const auto& [state, place] : tensor.states) text += fmt::format(", {} {}", state, Name(place.dtype));
  for (const auto& [state, other] : tensor.others) text += fmt::format(", {} in another form", state);
  return text;
}

template <typename PlaceOf>
BufferId AddBuffer(Storage& storage, std::int64_t part_elements, const std::vector<PartitionPart>& parts,
                   PlaceOf place_of) {
  Buffer buffer;
  buffer.dtype = place_of(*parts.front().tensor).dtype;
  buffer.part_elements = part_elements;
  for (const PartitionPart& part : parts) {
    const TensorPlace& place = place_of(*part.tensor);
    buffer.parts.push_back({place.record, place.offset, place.elements});
  }
  return storage.Add(std::move(buffer));
}

}  // namespace

std::size_t BelievedOf(const OptimizerContext& context, const std::vector<Speaker>& partitions) {
  std::vector<Coordinate> ranks;
  for (const Speaker& partition : partitions) ranks.push_back(partition.rank);
  return context.checkpoint.inventory.preference.FirstOf(ranks);
}

llvm::Error CheckParts(const OptimizerContext& context, const std::string& owner,
                       const std::vector<PartitionPart>& parts) {
  std::vector<Speaker> speakers;
  for (const PartitionPart& part : parts) speakers.push_back(*part.speaker);
  const PartitionPart& a = parts[BelievedOf(context, speakers)];
  for (const PartitionPart& b : parts) {
    UCP_RETURN_IF_ERROR(CheckStepAlike(context.checkpoint.inventory, context.checkpoint.training, *a.speaker,
                                       a.tensor->step, *b.speaker, b.tensor->step));
    UCP_RETURN_IF_ERROR(CheckSameText(context.folder, "the list of states of " + owner, Signature(*a.tensor),
                                      a.speaker->path, Signature(*b.tensor), b.speaker->path));
  }
  return llvm::Error::success();
}

BufferSetId AddBuffers(Storage& storage, std::int64_t part_elements, const std::vector<PartitionPart>& parts,
                       std::optional<Buffer> master) {
  auto master_of = [](const SteppedTensor& tensor) -> const TensorPlace& { return tensor.master; };
  BufferSet set = {
      {kMasterState, master ? storage.Add(std::move(*master)) : AddBuffer(storage, part_elements, parts, master_of)}};
  for (const auto& [state, place] : parts.front().tensor->states) {
    set.push_back(
        {state, AddBuffer(storage, part_elements, parts,
                          [&](const SteppedTensor& tensor) -> const TensorPlace& { return tensor.states.at(state); })});
  }
  return storage.Add(std::move(set));
}

Shard LocalShard(const Degrees& degrees, std::int64_t mp, TensorKind kind, const NamedShape& tensor) {
  Shard shard;
  shard.tensor = tensor.name;
  shard.kind = kind;
  shard.coordinate = degrees.RankOf(mp);
  shard.shape = tensor.shape;
  return shard;
}

}  // namespace ucp::deepspeed
