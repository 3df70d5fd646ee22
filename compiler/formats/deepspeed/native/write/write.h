// Lays out a native checkpoint: the files that a run on the target's ranks would have saved.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"

namespace ucp::deepspeed {

llvm::Expected<TargetFiles> LayOutCheckpoint(const TargetRequest& asked);

}  // namespace ucp::deepspeed
