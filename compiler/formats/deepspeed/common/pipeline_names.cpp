#include "compiler/formats/deepspeed/common/pipeline_names.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>

#include "compiler/support/error.h"

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

llvm::Error CheckStagesFollow(const std::string& folder, std::int64_t tp, const std::vector<ModelStates>& states) {
  const auto ranks = static_cast<std::size_t>(tp);
  if (states.size() <= ranks) return llvm::Error::success();  // One stage.
  for (std::size_t t = 0; t < ranks; ++t) {
    std::map<std::int64_t, std::string> before;  // A name of each layer of the stages before.
    const ModelStates* of_last = nullptr;        // The rank that has the last of them.
    for (std::size_t mp = t; mp < states.size(); mp += ranks) {
      std::map<std::int64_t, std::string> layers;
      auto add = [&](const std::string& name) {
        const std::optional<std::int64_t> layer = PlaceInPipeline(name);
        if (layer && *layer >= 0) layers.emplace(*layer, name);
      };
      for (const auto& group : states[mp].param_shapes) {
        for (const NamedShape& shape : group) add(shape.name);
      }
      for (const auto& [name, place] : states[mp].module.tensors) add(name);
      if (layers.empty()) continue;
      if (of_last != nullptr && layers.begin()->first <= before.rbegin()->first) {
        return Fail(
            ErrorCode::kBadData,
            "`{}`: `{}`, of a later pipeline stage than `{}`, has `{}`, and that one has `{}`; stages follow one "
            "another as their layers do, so one of these files is another stage's",
            folder, states[mp].path, of_last->path, layers.begin()->second, before.rbegin()->second);
      }
      of_last = &states[mp];
      before.merge(layers);
    }
  }
  return llvm::Error::success();
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
    auto add_untrained = [&](const std::string& name) {
      add_name(name);
      if (name.starts_with("tied_modules.")) stage.tied_untrained.insert(name);
    };
    for (const std::string& name : states[mp].buffer_names) add_untrained(name);
    for (const auto& [name, shape] : states[mp].frozen_shapes) add_untrained(name);
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
                                shapes.contains(NamedShape{prefix + name, {place.elements}}) ||
                                stages_[p].tied_untrained.contains(prefix + name);
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
