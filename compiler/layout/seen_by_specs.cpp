#include "compiler/layout/seen_by_specs.h"

#include <map>
#include <string_view>

namespace ucp {

const Inventory& SeenBySpecs(const Inventory& inventory, std::optional<Inventory>& whole) {
  if (inventory.boxes() == nullptr) return inventory;
  whole.emplace();
  whole->format = inventory.format;
  whole->root = inventory.root;
  whole->cuts = WholeTensors{};
  whole->facts = inventory.facts;
  whole->aliases = inventory.aliases;
  whole->preference = inventory.preference;
  std::map<std::string_view, TensorKind> kinds;
  for (const Shard& shard : inventory.storage.shards) kinds.emplace(shard.tensor, shard.kind);
  for (const auto& [name, boxes] : *inventory.boxes()) {
    Shard& shard = whole->storage.shards.emplace_back();
    shard.tensor = name;
    shard.kind = kinds[name];
    shard.shape = boxes.shape;
  }
  return *whole;
}

}  // namespace ucp
