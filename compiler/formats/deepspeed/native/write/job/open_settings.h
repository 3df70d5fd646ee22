// The settings of a native checkpoint that neither its strategy nor a `ds_config` of the source says: a model alone has
// no job. Its weights say the dtype; the rest is asked for at once.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <string>
#include <vector>

#include "compiler/formats/strategy.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Returns what nothing says, each as "zero=0 to zero=3 for the ZeRO stage".
std::vector<std::string> OpenSettings(const Strategy& strategy, const TrainingState& training,
                                      std::span<const LogicalTensor> tensors);

// Returns the strategy with the dtype of the weights, if it needs one; that is a remark. Fails (kUsage) with all that
// nothing says, and a strategy that says it.
llvm::Expected<Strategy> CloseSettings(const Strategy& strategy, const TrainingState& training,
                                       std::span<const LogicalTensor> tensors, std::vector<std::string>& remarks);

}  // namespace ucp::deepspeed
