// Lays out a universal folder that DeepSpeed's engine loads at ZeRO stages 1, 2 and 3.
#pragma once

#include <llvm/Support/Error.h>

#include <span>

#include "compiler/formats/format.h"

namespace ucp::universal {

llvm::Expected<TargetFiles> LayOutFolder(std::span<const LogicalTensor> tensors, const TrainingState& training,
                                         const Strategy& strategy);

}  // namespace ucp::universal
