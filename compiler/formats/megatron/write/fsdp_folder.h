// The folder of a target that jobs under Megatron-FSDP load (`--ckpt-format fsdp_dtensor`).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"
#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/layout/target.h"

namespace ucp::megatron {

// Fails (kUnsupported) for tensors and training states that Megatron Core would not load. EqualPartsOf() has cut the
// layout.
llvm::Expected<TargetFiles> LayOutFsdpFolder(const TargetRequest& request, const TargetOptions& options);

}  // namespace ucp::megatron
