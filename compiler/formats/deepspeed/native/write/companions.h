// Files beside a checkpoint in the folders of Hugging Face's Trainer and Accelerate, on their way into the target's
// root, so that the loop that trained goes on from there.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Adds them, but for the random states of ranks that the target does not have, and says what that means.
[[nodiscard]] llvm::Error AddCompanions(const TargetRequest& request, const WriteOptions& options, TargetFiles& target);

}  // namespace ucp::deepspeed
