#include "compiler/phases/large_tensors.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace ucp {
namespace {

Shard ShardOf(const LargeTensor& tensor) {
  Shard shard;
  shard.tensor = tensor.name;
  shard.kind = TensorKind::kCarried;
  shard.shape = tensor.sizes;
  shard.strides = tensor.strides;
  shard.base = tensor.base;
  shard.states = tensor.states;
  return shard;
}

TensorLayout LayoutOf(const LargeTensor& tensor) {
  TensorLayout whole;
  whole.name = tensor.name;
  whole.declared_at = "the checkpoint";
  for (std::int64_t size : tensor.sizes) whole.dims.push_back(ShapeExpr::Length(size));
  return whole;
}

}  // namespace

void AddLargeTensors(const Storage& target, Checkpoint& source, std::span<Layout* const> layouts) {
  std::set<std::string_view> held;
  for (const Shard& shard : target.shards) {
    if (shard.kind == TensorKind::kCarried) held.insert(shard.tensor);
  }
  for (const LargeTensor& tensor : source.training.large_tensors) {
    if (!held.contains(tensor.name)) continue;
    source.inventory.storage.shards.push_back(ShardOf(tensor));
    for (Layout* layout : layouts) layout->tensors.push_back(LayoutOf(tensor));
  }
  for (Layout* layout : layouts) {
    std::sort(layout->tensors.begin(), layout->tensors.end(),
              [](const TensorLayout& a, const TensorLayout& b) { return a.name < b.name; });
  }
}

}  // namespace ucp
