#include "runtime/formats/deepspeed/pipeline_names.h"

#include <re2/re2.h>

#include <algorithm>

namespace ucp::deepspeed {

std::optional<std::int64_t> PlaceInPipeline(const std::string& name) {
  static const RE2 numbered(R"((\d{1,9})\..*)");
  std::int64_t layer = 0;
  if (name.starts_with("tied_modules.")) return -1;
  if (RE2::FullMatch(name, numbered, &layer)) return layer;
  return std::nullopt;
}

std::string PrefixInPipeline(const std::string& name) {
  static const RE2 layer(R"((\d{1,9}\.|tied_modules\.[^.]+\.).*)");
  std::string prefix;
  RE2::FullMatch(name, layer, &prefix);
  return prefix;
}

PipelineNames::PipelineNames(const std::vector<ModelStates>& states, std::int64_t tp) {
  static const RE2 numbered(R"((\d{1,9})\..*)");
  static const RE2 tied(R"(tied_modules\.([^.]+)\..*)");
  for (std::size_t mp = 0; mp < states.size(); mp += static_cast<std::size_t>(tp)) {
    Stage stage;
    auto add_name = [&](const std::string& name) {
      std::int64_t layer = 0;
      std::string key;
      if (RE2::FullMatch(name, numbered, &layer)) stage.layers.insert(layer);
      if (RE2::FullMatch(name, tied, &key)) stage.tied.insert(key);
    };
    for (const auto& group : states[mp].param_shapes) {
      for (const NamedShape& shape : group) {
        add_name(shape.name);
        if (shape.name.starts_with("tied_modules.")) stage.tied_shapes.insert(shape);
      }
    }
    for (const std::string& name : states[mp].buffer_names) add_name(name);
    for (const auto& [name, shape] : states[mp].frozen_shapes) add_name(name);
    stages_.push_back(std::move(stage));
  }
}

// Stages are runs of layers, so a layer whose number stands nowhere is on the stage of the layer before it.
std::int64_t PipelineNames::NearestStage(std::int64_t layer) const {
  std::int64_t stage = 0;
  std::int64_t nearest = -1;
  for (std::size_t p = 0; p < stages_.size(); ++p) {
    auto above = stages_[p].layers.upper_bound(layer);
    if (above == stages_[p].layers.begin()) continue;
    if (std::int64_t below = *std::prev(above); below > nearest) {
      nearest = below;
      stage = static_cast<std::int64_t>(p);
    }
  }
  return stage;
}

std::optional<PipelineNames::Layer> PipelineNames::Find(std::int64_t layer, const ModuleEntries& entries) const {
  const std::string own_prefix = std::to_string(layer) + ".";
  const std::int64_t nearest = NearestStage(layer);
  if (stages_[static_cast<std::size_t>(nearest)].layers.contains(layer)) return Layer{nearest, own_prefix};
  // No name has this number: a tied layer, or one that is frozen altogether.
  for (bool everywhere : {false, true}) {
    std::vector<Layer> fits;
    std::set<std::string> keys;
    for (std::size_t p = 0; p < stages_.size(); ++p) {
      const auto stage = static_cast<std::int64_t>(p);
      if (!everywhere && stage != nearest) continue;
      for (const std::string& key : stages_[p].tied) {
        const std::string prefix = "tied_modules." + key + ".";
        bool all_known = !entries.tensors.empty();
        for (const auto& [name, place] : entries.tensors) {
          const auto& shapes = stages_[p].tied_shapes;
          const bool is_known = shapes.contains(NamedShape{prefix + name, place.sizes}) ||
                                shapes.contains(NamedShape{prefix + name, {place.elements}});
          all_known = all_known && is_known;
        }
        if (all_known && keys.insert(key).second) fits.push_back({stage, prefix});
      }
    }
    if (fits.size() == 1) return fits.front();
    if (fits.size() > 1) return std::nullopt;
  }
  return Layer{nearest, own_prefix};
}

}  // namespace ucp::deepspeed
