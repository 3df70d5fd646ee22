// Which parameter is which in a checkpoint without ZeRO: nothing in it lists them. It follows from the module, or it is
// refused.
//
// FP16_Optimizer makes the model's parameters views of one flat vector for each group, and the module is saved as such:
// the views say which parameters are in a group, and where. In the other forms a tensor of the optimizer has the shape
// of its parameter, and in a group parameters come in the module's order; that decides if no shape is asked for by two
// groups, or had by more parameters than the optimizer steps (some are then frozen).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/formats/deepspeed/whole_states.h"
#include "runtime/formats/model_states.h"

namespace ucp::deepspeed {

// Fills `states.param_shapes`, by group.
[[nodiscard]] llvm::Error NameParameters(const WholeOptimizer& optimizer, const std::string& folder,
                                         ModelStates& states);

}  // namespace ucp::deepspeed
