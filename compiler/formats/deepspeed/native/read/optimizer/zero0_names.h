// Identifies the parameters in a checkpoint without ZeRO: nothing in it lists them. It follows from the module, or it
// is refused.
//
// FP16_Optimizer makes the model's parameters views of one flat vector for each group, and the module is saved as such:
// the views say which parameters are in a group, and where. In the other forms a tensor of the optimizer has the shape
// of its parameter, and in a group parameters come in the module's order; that decides if no shape is asked for by two
// groups, or had by more parameters than the optimizer steps (some are then frozen). Where an optimizer has neither
// masters nor states, a single group that has as many parameters as the module has them in its order. A pipeline's
// layers are saved one by one, and beside experts a module is copied, so there FP16_Optimizer's views are gone, and
// only a single group is known to have all parameters. Where masters are of another type than the module, values decide
// what is left (zero0_values.h). Routers that AutoEP made anew can come behind the other parameters of their group.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"

namespace ucp::deepspeed {

// The sentence of all refusals: `why` is how this checkpoint does not tell.
[[nodiscard]] llvm::Error FailWithoutNames(const std::string& folder, const ModelStates& states,
                                           const std::string& why);

// Fills `states.param_shapes`, by group. Of a pipeline, call after FindStagesOfLayers().
[[nodiscard]] llvm::Error NameParameters(const SourceArchives& archives, const WholeOptimizer& optimizer,
                                         const std::string& folder, ModelStates& states);

}  // namespace ucp::deepspeed
