// DeepSpeed's part of the training state of a source that was made up from a spec.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <span>

#include "compiler/formats/format_state.h"

namespace ucp::deepspeed {

// If all names are those of a PipelineModule, and the strategy is not of a kind that cannot have one, it is one; else
// null. Fails with kUsage if two modules would be the same layer.
llvm::Expected<std::shared_ptr<const FormatState>> MakeSyntheticState(const Strategy& strategy,
                                                                      std::span<const LogicalTensor> tensors,
                                                                      const TiedLayers& tied);

}  // namespace ucp::deepspeed
