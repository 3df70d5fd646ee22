#include "compiler/bind/values/inventory_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/spec/variant.h"

namespace ucp {

InventoryIndex::InventoryIndex(const Inventory& inventory) : inventory_(inventory) {
  for (const Shard& shard : inventory.storage.shards) Add(shard.tensor, shard);
}

void InventoryIndex::NameLayers(const std::vector<std::string>& names) {
  names_layers_ = true;
  if (names.empty()) return;
  tensors_.clear();
  by_name_.clear();
  names_.clear();
  for (std::size_t i = 0; i < names.size(); ++i) Add(names[i], inventory_.storage.shards[i]);
}

void InventoryIndex::Add(std::string_view name, const Shard& shard) {
  auto [entry, added] = by_name_.emplace(name, tensors_.size());
  if (added) tensors_.push_back({name, {}});
  tensors_[entry->second].shards.push_back(&shard);
}

const FoundTensor* InventoryIndex::Find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::vector<std::string_view> InventoryIndex::AllNames() const {
  std::vector<std::string_view> names;
  for (const FoundTensor& tensor : tensors_) names.push_back(tensor.name);
  for (const auto& [second, first] : inventory_.aliases) names.push_back(second);
  return names;
}

bool InventoryIndex::HasBehind(std::string_view prefix) const {
  if (names_.empty()) {
    names_ = AllNames();
    std::ranges::sort(names_);
  }
  auto name = std::ranges::lower_bound(names_, prefix);
  return name != names_.end() && name->starts_with(prefix);
}

bool InventoryIndex::HasBehindSkeleton(std::string_view skeleton) const {
  if (skeletons_.empty()) {
    for (std::string_view name : AllNames()) skeletons_.push_back(SkeletonOf(name));
    std::ranges::sort(skeletons_);
  }
  auto name = std::ranges::lower_bound(skeletons_, skeleton, std::less<>());
  return name != skeletons_.end() && name->starts_with(skeleton);
}

Place InventoryIndex::PlaceOf(const Shard& shard) const {
  const Storage& storage = inventory_.storage;
  if (shard.states.index() < storage.buffer_sets.size()) {
    for (const StateBuffer& state : storage.buffer_sets[shard.states.index()]) {
      const Buffer& buffer = storage.buffers[state.buffer.index()];
      if (!buffer.parts.empty()) return Place::Elsewhere(storage.file(buffer.parts.front().record).path);
    }
  }
  return Place::Elsewhere("the checkpoint");
}

std::string ShapeText(const Shard& shard) { return fmt::format("[{}]", fmt::join(shard.shape, ", ")); }

std::string WhereText(const Shard& shard) {
  std::string coordinate = ToString(shard.coordinate);
  return coordinate.empty() ? "the only rank" : coordinate;
}

}  // namespace ucp
