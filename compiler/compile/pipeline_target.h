// The stages of a target whose layers DeepSpeed deals out itself, where no spec says it.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/compile/bound_source.h"
#include "compiler/layout/target.h"

namespace ucp {

// The stages of the source; of a folder of whole tensors those of the checkpoint that it was made of, if it remembers
// them.
struct SourceStages {
  std::int64_t count = 1;
  std::unordered_map<std::string, std::set<std::int64_t>> of_tensor;  // By the layout's own name.
};
SourceStages StagesOfSource(const BoundSource& source);

// Gives each tensor of `layout`, which has the target's mesh, its stages: by the numbers of layers in `degrees`, by the
// setting `partition` of the strategy, or by PipelineModule's default if the source's own stages bear it out. The
// choice is a remark. Call if the source knows its layer files.
[[nodiscard]] llvm::Error PlacePipeline(const Strategy& strategy, const Degrees& degrees, const BoundSource& source,
                                        const SourceStages& stages, std::span<const LogicalTensor> tensors,
                                        Layout& layout, std::vector<std::string>& remarks);

}  // namespace ucp
