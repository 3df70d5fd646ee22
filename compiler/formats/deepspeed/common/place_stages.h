// The stages of a target whose layers DeepSpeed deals out itself, where no spec says it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/family_state.h"

namespace ucp::deepspeed {

// Gives each tensor of `layout`, which has the target's mesh, its stages: by the numbers of layers in the degrees, by
// the setting `partition` of the strategy, or by PipelineModule's default if the source's own stages bear it out. The
// choice is a remark. `state` must have a pipeline.
[[nodiscard]] llvm::Error PlacePipeline(const FamilyState& state, const StageRequest& request, Layout& layout,
                                        std::vector<std::string>& remarks);

}  // namespace ucp::deepspeed
