// Places the layers of a PipelineModule on the stages of a target.
//
// A checkpoint does not say all that DeepSpeed deals layers by. Layers without parameters have no file, and neither has
// a layer that uses the parameters of an earlier one (a head that is tied to the embedding, with a function of its
// own). So every pipeline is tried that could have left the source's files: such layers in each place without a file,
// and behind the last one, with no more tied layers than the files and the source's stages ask for. A value on which
// all of them agree is known; where two differ, the user has to say it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "compiler/formats/deepspeed/common/deal_layers.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"

namespace ucp {

struct PipelineSource {
  const PipelineLayers& layers;
  std::map<std::string, std::int64_t> weights;           // Trained parameters of a layer, by its prefix.
  std::map<std::string, std::set<std::int64_t>> stages;  // Where the source has it, by its prefix.
  std::int64_t stage_count = 1;                          // Of the source. With 1, nothing follows from `stages`.
};

struct PipelineStages {
  std::map<std::string, std::vector<std::int64_t>> of_prefix;  // Sorted.
  std::vector<std::int64_t> layers;  // How many each stage has; those behind the last file count for the last stage.
};

// `how` is a method for `stages` stages, or how many layers each stage has. Fails with kUsage if that leaves two
// possibilities, or contradicts the source.
llvm::Expected<PipelineStages> PlaceLayers(const PipelineSource& source, std::int64_t stages,
                                           const std::variant<DealMethod, std::vector<std::int64_t>>& how);

}  // namespace ucp
