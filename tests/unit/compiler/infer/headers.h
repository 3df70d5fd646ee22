// The headers of a checkpoint, for tests that look at nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layout/inventory.h"

namespace ucp {

// A checkpoint's headers, written down: what each tensor-parallel rank of each stage holds.
class Headers {
 public:
  explicit Headers(std::int64_t tp, std::int64_t pp = 1) {
    inventory_.root = "run";
    inventory_.format = "deepspeed";
    if (pp > 1) inventory_.mesh.axes.push_back({"pp", pp});
    inventory_.mesh.axes.push_back({"tp", tp});
  }
  Headers& Add(const std::string& name, const std::vector<std::vector<std::int64_t>>& by_rank, std::int64_t stage = 0) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      Shard shard;
      shard.tensor = name;
      shard.shape = by_rank[rank];
      shard.coordinate.at = {{"pp", stage}, {"tp", static_cast<std::int64_t>(rank)}};
      inventory_.storage.shards.push_back(shard);
    }
    return *this;
  }
  Headers& AddBuffer(const std::string& name, const std::vector<std::vector<std::int64_t>>& by_rank) {
    Add(name, by_rank);
    for (Shard& shard : inventory_.storage.shards) {
      if (shard.tensor == name) shard.kind = TensorKind::kBuffer;
    }
    return *this;
  }
  Headers& Fact(const std::string& path, FactValue value) {
    inventory_.facts[path] = {std::move(value), "model.pt"};
    return *this;
  }
  Headers& Embed(EmbeddedLayout layout) {
    layout.where = "model.pt";
    inventory_.cuts = std::move(layout);
    return *this;
  }
  const Inventory& get() const { return inventory_; }

 private:
  Inventory inventory_;
};

}  // namespace ucp
