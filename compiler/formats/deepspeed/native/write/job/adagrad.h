// States of PyTorch's Adagrad that a target cannot have. It makes its states when it is made, and so the engine makes a
// new one for the vectors that ZeRO steps, with one group of all of them, however many groups the job had.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/deepspeed/native/write/job/options.h"

namespace ucp::deepspeed {

// Fails with kUnsupported at stage 3, where DeepSpeed loads no checkpoint of it, and for several groups at stages 1 and
// 2, which DeepSpeed looks for in vain.
[[nodiscard]] llvm::Error CheckAdagradRuns(const TrainingState& training, const WriteOptions& options);

}  // namespace ucp::deepspeed
