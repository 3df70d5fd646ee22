// DeepSpeed before 0.6.0 wrote `param_shapes` into every optimizer file instead of the model-states file:
//
//   from 0.5.4   a list with an entry for each group, as today
//   from 0.4.3   one dict in the order of the optimizer's groups, one group behind the other
//   before       one dict of all of the module's parameters, in the module's order
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"

namespace ucp::deepspeed {

// Fills `param_shapes` of the ranks whose model-states file has none, from all optimizer files of the rank. The lengths
// of the groups decide what one dict leaves open, and so do the flat vectors that the module's tensors are views of.
// Fails (kUnsupported) if that decides nothing, (kBadData) if no file has the shapes.
[[nodiscard]] llvm::Error ReadOldParamShapes(ReadableFileSystem& file_system, const CheckpointFiles& files,
                                             const std::string& folder, std::int64_t partitions,
                                             std::vector<ModelStates>& states, std::vector<std::string>& remarks);

}  // namespace ucp::deepspeed
