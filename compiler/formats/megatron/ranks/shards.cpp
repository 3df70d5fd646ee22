// Ranks that have a copy of the same box have its states, or another of them has.
#include "compiler/formats/megatron/ranks/shards.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/layout/dtype.h"
#include "compiler/layout/layout.h"

namespace ucp::megatron {
namespace {

// Those of the last dimensions; no place counts the layers and experts before them.
std::vector<std::int64_t> StridesOf(const PlacedBox& box, const std::vector<std::int64_t>& last) {
  std::vector<std::int64_t> strides;
  if (last.empty()) return strides;
  strides.assign(box.sizes.size() - last.size(), 0);
  strides.insert(strides.end(), last.begin(), last.end());
  return strides;
}

Shard WeightOf(const PlacedBox& box, Shard shard, SourceArchives& archives) {
  const TensorPlace& place = box.tensor->place;
  const bool has_rows_apart = !place.strides.empty();
  shard.base = place.offset + (has_rows_apart ? box.rows_before * place.strides.front() : box.begin);
  shard.states = archives.BuffersOf(place, kWeightState);
  shard.strides = StridesOf(box, has_rows_apart ? place.strides : box.strides);
  return shard;
}

}  // namespace

void AddShards(const WholeTensor& tensor, const Training& training, SourceArchives& archives, Inventory& inventory) {
  const bool is_trained = training.has_states && !IsBuffer(tensor.entry.key);
  const bool can_be_trained = IsFloatingPoint(tensor.entry.dtype) && !IsBuffer(tensor.entry.key);
  const TensorKind untrained = can_be_trained ? TensorKind::kFrozen : TensorKind::kBuffer;
  TensorBoxes& boxes = std::get<BoxesOfTensors>(inventory.cuts)[tensor.entry.key];
  boxes.shape = tensor.entry.shape;
  for (const PlacedBox& box : tensor.boxes) {
    ProductSet set;
    for (std::size_t d = 0; d < box.sizes.size(); ++d) set.dims.emplace_back().Append(box.offsets[d], box.sizes[d]);
    Shard shard;
    shard.tensor = tensor.entry.key;
    shard.kind = is_trained ? TensorKind::kParameter : untrained;
    shard.shape.assign(box.sizes.begin(), box.sizes.end());
    shard.coordinate.at[kBoxAxis] = std::ssize(boxes.boxes);
    boxes.boxes.push_back(std::move(set));
    // The weights of a training in float32 are their own masters.
    if (!is_trained || tensor.entry.dtype != DType::kFloat32 || training.shares_states) {
      inventory.storage.shards.push_back(WeightOf(box, shard, archives));
    }
    if (!is_trained || box.states == nullptr) continue;
    shard.base = box.begin;
    shard.strides = StridesOf(box, box.strides);
    shard.states = inventory.storage.Add(*box.states);
    inventory.storage.shards.push_back(std::move(shard));
  }
  const auto most = std::max(inventory.mesh.Size(kBoxAxis), std::ssize(boxes.boxes));
  inventory.mesh.axes = {{kBoxAxis, most}};
}

}  // namespace ucp::megatron
