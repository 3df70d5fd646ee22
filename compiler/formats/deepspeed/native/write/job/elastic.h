// The form of stages 1 and 2 with `elastic_checkpoint`: a list of the groups' states without the padding, and no
// settings of the optimizer, so that a job that loads it keeps its own. Its loader knows states of float32 and steps
// that are numbers; a job with `elastic_checkpoint` loads the other form as well.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Returns whether the source says nothing of learning rates and the like, as an elastic checkpoint.
bool LacksSettings(const TrainingState& training);

// Takes them from the job's own `optimizer`, if the source lacks them, and has one group with Adam's states and steps
// that are numbers, as FusedAdam's are; tells in a remark which.
// Nothing changes without an `optimizer`. Fails with kUsage for an optimizer of which it does not say everything.
[[nodiscard]] llvm::Error TakeSettingsOfJob(const EngineConfig& job, std::span<const LogicalTensor> tensors,
                                            TrainingState& training, std::vector<std::string>& remarks);

// Decides on the form of a target of `options`, and sets `options.lists_states`. Fails with kUnsupported for a source
// that lacks settings, if the target has to have them.
[[nodiscard]] llvm::Error ChooseForm(const TrainingState& training, std::span<const LogicalTensor> tensors,
                                     WriteOptions& options, std::vector<std::string>& remarks);

// Returns the values beside a list: the step of the first group's settings, where FusedAdam keeps one, or None.
// DeepSpeed saves nothing in the other case, and then fails to load it.
pytorch::ValuePtr StepBesideStates(const TrainingState& training);

}  // namespace ucp::deepspeed
