// Reads from a checkpoint's `universal_checkpoint_info` how its own tensors are cut.
#pragma once

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/layout/inventory.h"

namespace ucp::deepspeed {

// Fills `cuts` and `first_stage_counts`. Call when the inventory has all shards.
void ReadEmbeddedMetadata(const ModelStates& states, Inventory& inventory);

}  // namespace ucp::deepspeed
