// Lays out a folder as Hugging Face has it, with whole tensors.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"
#include "compiler/layout/target.h"

namespace ucp::safetensors {

llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request);

}  // namespace ucp::safetensors
