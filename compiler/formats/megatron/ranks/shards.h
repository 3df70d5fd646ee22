// The tensors of a model that its ranks saved, as the shards of an inventory.
#pragma once

#include "compiler/formats/megatron/ranks/join.h"
#include "compiler/formats/source_archives.h"
#include "compiler/layout/inventory.h"

namespace ucp::megatron {

struct Training {
  bool has_states = false;     // Those of the optimizer are read.
  bool shares_states = false;  // It is distributed.
};

// `archives`: those that the boxes of the tensor are in.
void AddShards(const WholeTensor& tensor, const Training& training, SourceArchives& archives, Inventory& inventory);

}  // namespace ucp::megatron
