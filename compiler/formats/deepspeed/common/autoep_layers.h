// A model-states file's statement of the layers whose experts DeepSpeed's AutoEP spreads over ranks: the entry
// `ds_autoep_layers`. AutoEP keeps all experts of a layer in three tensors, `<prefix>.w1` to `<prefix>.w3`, with an
// expert for each place of the first dimension; each rank has a part of those places, its own in an order of its own.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/inventory.h"

namespace ucp {

struct AutoEpLayer {
  std::string prefix;       // "model.layers.1.mlp.experts"
  std::int64_t number = 0;  // In the names of its experts' files.
  std::int64_t experts = 0;
  ExpertPlaces places;               // By expert rank.
  std::optional<std::int64_t> rank;  // The expert rank that wrote this.
  std::int64_t local_experts = 0;    // How many that rank has.
  // Of the whole tensors, by name, as the affine maps say; empty if there are none.
  std::map<std::string, std::vector<std::int64_t>> shapes;

  std::int64_t ep() const { return static_cast<std::int64_t>(places.size()); }
  // Returns whether a tensor of this name is one of the layer's.
  bool Holds(const std::string& name) const {
    return name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '.';
  }
};

// `value` is the entry's, `where` the file it was read from. Older checkpoints describe no placement: neighbouring
// experts, as many on each rank. Placements and affine maps of a version above 1 are kUnsupported; a placement that
// leaves out an expert, names one twice on a rank, or contradicts the counts, the maps or the rank's own range
// (`global_expert_start`) beside it, is an error.
llvm::Expected<std::vector<AutoEpLayer>> ReadAutoEpLayers(const pytorch::Value& value, const std::string& where);

// Returns the model's order of these layers; empty if their numbers do not follow one another.
std::vector<ExpertLayer> LayersInOrder(std::span<const AutoEpLayer> layers);

}  // namespace ucp
