// From a pipeline's layer files to the names of the whole model.
//
// A layer file holds names that are local to its layer: "norm.weight". The model calls that tensor "5.norm.weight" (5
// being the layer), or "tied_modules.<key>.norm.weight" if the layer is tied to another one. The names that each stage
// lists in its model-states file say which of the two, and on which stage the layer is.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"

namespace ucp::deepspeed {

// Where a PipelineModule registers a parameter: its layer ("5.norm.weight"), or -1 for tied modules, which come before
// all layers. Returns nothing for a name that is none of a pipeline's.
std::optional<std::int64_t> PlaceInPipeline(const std::string& name);

// Returns the prefix of the names of its layer: "5." or "tied_modules.embed.". It is empty for a name that is none of a
// pipeline's.
std::string PrefixInPipeline(const std::string& name);

// The layers whose numbers stand in the names of a rank's tensors follow those of the stages before it, as the stages
// of a PipelineModule do. Files of stages that were exchanged for each other have every tensor, and another order.
[[nodiscard]] llvm::Error CheckStagesFollow(const std::string& folder, std::int64_t tp,
                                            const std::vector<ModelStates>& states);

class PipelineNames {
 public:
  // `states` by model-parallel rank; each stage has `tp` of them. A shape can be the number of elements alone.
  PipelineNames(const std::vector<ModelStates>& states, std::int64_t tp);

  struct Layer {
    std::int64_t stage = 0;
    std::string prefix;  // "5." or "tied_modules.embed."
  };
  // Returns nothing if the layer could be several tied modules, which is then no layer we can name.
  std::optional<Layer> Find(std::int64_t layer, const ModuleEntries& entries) const;

 private:
  struct Stage {
    std::set<std::int64_t> layers;         // Those whose numbers stand in names.
    std::set<std::string> tied;            // Keys of tied modules.
    std::set<NamedShape> tied_shapes;      // Of their parameters.
    std::set<std::string> tied_untrained;  // Their buffers and frozen parameters.
  };
  std::int64_t NearestStage(std::int64_t layer) const;

  std::vector<Stage> stages_;
};

}  // namespace ucp::deepspeed
