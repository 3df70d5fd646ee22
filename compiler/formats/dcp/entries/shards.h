// The shards of a tensor: one for each box that some chunk of its states has.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/layout/inventory.h"

namespace ucp::dcp {

struct StateOfTensor {
  std::string state;  // "fp32", "exp_avg"
  const Entry* entry = nullptr;
};

// Returns the shards of a tensor, and fills `boxes`. The states have the tensor's shape, and are sorted by name. States
// with equal chunks share shards.
std::vector<Shard> ShardsOf(const StoredItems& items, const std::string& name, TensorKind kind,
                            std::vector<StateOfTensor> states, StorageTables& tables, TensorBoxes& boxes);

}  // namespace ucp::dcp
