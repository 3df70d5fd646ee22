// Lays out a folder as Hugging Face has it, with whole tensors.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/layout/target.h"
#include "runtime/formats/format.h"

namespace ucp::safetensors {

llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request);

}  // namespace ucp::safetensors
