// The folder of Megatron Core that a target is: a root, with a tracker file and the folder of one iteration.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"
#include "compiler/layout/target.h"

namespace ucp::megatron {

// Fails (kUnsupported) for tensors and training states that Megatron Core would not load.
llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request);

}  // namespace ucp::megatron
