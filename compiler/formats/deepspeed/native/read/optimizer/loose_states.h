// Enters the states that are not one number for each element into the training state, with the tensors that they belong
// to.
#pragma once

#include <string>

#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"
#include "compiler/formats/loose_states.h"

namespace ucp::deepspeed {

// Adds all of `tensor.others`. `why_not_carried` is empty if the file has their tensors as the optimizer had them.
void AddLooseStates(const OptimizerContext& context, const SteppedTensor& tensor, const SteppedElements& belongs_to,
                    const std::string& why_not_carried);

}  // namespace ucp::deepspeed
