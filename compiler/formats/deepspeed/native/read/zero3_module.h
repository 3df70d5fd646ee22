// The model-states files of stage 3: every partition has one, with the same lists, its part of each frozen parameter,
// and empty placeholders where the model's own parameters would be.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"

namespace ucp::deepspeed {

// `states` are those of partition 0, whose buffers and client state count if the user believes no other. Reads the
// files of the other partitions, fails if they contradict it, adds a shard with the state "weight" for every frozen
// parameter, and takes out of `states` all but tensors of its own: the frozen fragments and the placeholders. Call
// after CheckModuleTensors().
[[nodiscard]] llvm::Error AddPartitionedModule(const OptimizerContext& context, std::vector<ModelStates>& states);

}  // namespace ucp::deepspeed
