// The shards of a checkpoint by the name of their tensor, and the words for where one lies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"

namespace ucp {

struct FoundTensor {
  std::string_view name;
  std::vector<const Shard*> shards;  // At least one, in the inventory's order.
};

// Looks into the inventory, which must outlive it.
class InventoryIndex {
 public:
  explicit InventoryIndex(const Inventory& inventory);

  // Where the checkpoint counts layers from 0 on every stage, sorts the shards anew by names with the layers' own
  // numbers, one for each of them and in the same order, which must outlive it. Keeps them as they are if there are
  // none.
  void NameLayers(const std::vector<std::string>& names);

  bool names_layers() const { return names_layers_; }  // Whether NameLayers was called.

  const Inventory& inventory() const { return inventory_; }
  const std::vector<FoundTensor>& tensors() const { return tensors_; }  // By first appearance.
  const FoundTensor* Find(std::string_view name) const;                 // nullptr if there is none.

  // A tensor or a second name of the inventory. `prefix` ends with a dot; `skeleton` is that of one (check/variant.h).
  bool HasBehind(std::string_view prefix) const;
  bool HasBehindSkeleton(std::string_view skeleton) const;

  // Returns the file that holds the shard, or the checkpoint if the inventory does not say.
  Place PlaceOf(const Shard& shard) const;

 private:
  void Add(std::string_view name, const Shard& shard);

  const Inventory& inventory_;
  std::vector<FoundTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  bool names_layers_ = false;
  std::vector<std::string_view> AllNames() const;

  // Sorted, once they were asked.
  mutable std::vector<std::string_view> names_;
  mutable std::vector<std::string> skeletons_;
};

// "[8, 16]"
std::string ShapeText(const Shard& shard);

// "pp=0 tp=1", or "the only rank".
std::string WhereText(const Shard& shard);

}  // namespace ucp
