// The loss scale of float16. DeepSpeed keeps it in two forms: stages 1 to 3 save the object that scales, and without
// ZeRO its numbers stand in the optimizer's dict. A training state has the object, whichever form the files have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

// Returns whether the scale follows the overflows. A LossScaler never changes its own.
bool IsDynamicLossScaler(const pytorch::Value& loss_scaler);

// "static and 128", "dynamic".
std::string LossScaleText(const pytorch::Value& loss_scaler);

// Returns the object that the engine makes where the loss is not scaled.
pytorch::ValuePtr UnitLossScaler();

// Returns the object that the engine makes at its start. `config` is the `ds_config`, or null; settings that it lacks
// are as DeepSpeed's own defaults have it.
pytorch::ValuePtr InitialLossScaler(const pytorch::ValuePtr& config);

// Replaces the numbers of an optimizer without ZeRO by the object; nothing changes if there are none. Values that the
// numbers leave out (the least scale, how many overflows lower it) are as InitialLossScaler() has them.
void GatherLossScale(const pytorch::ValuePtr& config, std::vector<pytorch::Entry>& optimizer);

// The way back. `steps` is what a scale that never changes has counted; the other counts for itself.
std::vector<pytorch::Entry> LossScaleNumbers(const pytorch::Value& loss_scaler, const pytorch::ValuePtr& steps);

}  // namespace ucp::deepspeed
