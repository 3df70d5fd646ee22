#include "compiler/formats/deepspeed/native/read/module_tensors.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "compiler/formats/deepspeed/common/pipeline_names.h"
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"
#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/wrapper_names.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// The tensors of one rank's module, sorted into kinds.
class RankModule {
 public:
  RankModule(const ModelStates& states, const std::map<std::string, std::string>& shared) : states_(states) {
    for (const auto& group : states.param_shapes) {
      for (const NamedShape& shape : group) trained_.emplace(shape.name, &shape.shape);
    }
    if (!shared.empty()) {
      std::unordered_set<std::string_view> names;
      for (const auto& [name, place] : states.module.tensors) names.insert(name);
      for (const auto& [alias, canonical] : shared) {
        if (names.contains(alias)) aliases_.emplace(alias, canonical);
      }
    }
    FindUnrecordedAliases();
  }

  const std::map<std::string, std::string>& aliases() const { return aliases_; }

  TensorKind KindOf(const std::string& name) const {
    auto alias = aliases_.find(name);
    const std::string& canonical = alias == aliases_.end() ? name : alias->second;
    if (trained_.contains(canonical)) return TensorKind::kParameter;
    bool is_buffer = states_.buffer_names.contains(canonical) || canonical.ends_with("_extra_state");
    return is_buffer ? TensorKind::kBuffer : TensorKind::kFrozen;
  }

  llvm::Error CheckShape(const std::string& name, const TensorPlace& place) const {
    auto alias = aliases_.find(name);
    const std::string& canonical = alias == aliases_.end() ? name : alias->second;
    auto trained = trained_.find(canonical);
    auto frozen = states_.frozen_shapes.find(canonical);
    const std::vector<std::int64_t>* recorded = trained != trained_.end() ? trained->second : nullptr;
    if (recorded == nullptr && frozen != states_.frozen_shapes.end()) recorded = &frozen->second;
    if (recorded == nullptr || *recorded == place.sizes) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "`{}`: `{}` has shape {} in the module and {} in `{}`", states_.path, name,
                ShapeText(place.sizes), ShapeText(*recorded),
                trained != trained_.end() ? "param_shapes" : "frozen_param_shapes");
  }

 private:
  bool IsListed(const std::string& name) const {
    return trained_.contains(name) || states_.buffer_names.contains(name) || states_.frozen_shapes.contains(name);
  }

  // Only rank 0 records shared parameters, and old versions none at all; no version records shared buffers, nor those
  // of a module that another has twice. But a name that no list has and that is the very memory of one that a list has
  // is that tensor.
  void FindUnrecordedAliases() {
    using NamedPlace = std::pair<std::string, TensorPlace>;
    std::vector<const NamedPlace*> unknown;
    for (const NamedPlace& tensor : states_.module.tensors) {
      const auto& [name, place] = tensor;
      if (IsListed(name) || aliases_.contains(name) || place.elements == 0) continue;
      unknown.push_back(&tensor);
    }
    if (unknown.empty()) return;
    std::map<std::pair<RecordId, std::int64_t>, const NamedPlace*> listed_at;
    for (const NamedPlace& tensor : states_.module.tensors) {
      const auto& [name, place] = tensor;
      if (IsListed(name)) listed_at.emplace(std::pair(place.record, place.offset), &tensor);
    }
    for (const NamedPlace* tensor : unknown) {
      auto found = listed_at.find({tensor->second.record, tensor->second.offset});
      if (found != listed_at.end() && found->second->second.IsSameMemory(tensor->second)) {
        aliases_.emplace(tensor->first, found->second->first);
      }
    }
  }

  const ModelStates& states_;
  std::unordered_map<std::string_view, const std::vector<std::int64_t>*> trained_;
  std::map<std::string, std::string> aliases_;
};

// The module of its rank by a model-states file, by the list that says it.
std::vector<std::pair<std::string_view, const std::string*>> ListedTensors(const ModelStates& states) {
  std::vector<std::pair<std::string_view, const std::string*>> listed;
  for (const auto& group : states.param_shapes) {
    for (const NamedShape& shape : group) listed.emplace_back("param_shapes", &shape.name);
  }
  for (const auto& [name, shape] : states.frozen_shapes) listed.emplace_back("frozen_param_shapes", &name);
  for (const std::string& name : states.buffer_names) listed.emplace_back("buffer_names", &name);
  return listed;
}

// Fails for the tensor `<layer>.<rest>` that is not where it should be.
llvm::Error FailForLayer(const CheckpointFiles& files, const std::string& folder, LayerOf place, std::string_view list,
                         const std::string& name, const std::string& listing) {
  auto file = files.layers.find(place);
  if (file == files.layers.end()) {
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is missing; `{}` in `{}` lists its tensor `{}`", folder,
                LayerName(place, files), list, listing, name);
  }
  return Fail(ErrorCode::kBadData, "`{}`: `{}` has no tensor `{}`, and `{}` in `{}` lists `{}`", folder, file->second,
              name.substr(name.find('.') + 1), list, listing, name);
}

}  // namespace

std::set<std::string> TakeOutSecondNames(std::vector<ModelStates>& states) {
  std::set<std::string> taken;
  const std::map<std::string, std::string>& shared_params = states.front().shared_params;
  if (shared_params.empty()) return taken;
  std::unordered_set<std::string_view> known;
  for (const ModelStates& rank : states) {
    for (const auto& [list, name] : ListedTensors(rank)) known.insert(*name);
    for (const auto& [name, place] : rank.module.tensors) known.insert(name);
  }
  std::set<std::string> second_names;
  for (const auto& [second, first] : shared_params) {
    if (!known.contains(first) && !IsExpertName(first)) second_names.insert(second);
  }
  if (second_names.empty()) return taken;
  for (ModelStates& rank : states) {
    std::erase_if(rank.module.tensors, [&](const auto& tensor) {
      if (!second_names.contains(tensor.first)) return false;
      taken.insert(tensor.first);
      return true;
    });
  }
  return taken;
}

void TakeListedNames(std::vector<ModelStates>& states) {
  for (ModelStates& rank : states) {
    std::unordered_map<std::string, const std::string*> listed_names;
    for (const auto& [list, name] : ListedTensors(rank)) {
      std::string in_module = NameInStateDict(*name);
      if (in_module != *name) listed_names.emplace(std::move(in_module), name);
    }
    if (listed_names.empty()) continue;
    for (ModuleEntries* entries : {&rank.module, &rank.frozen_fragments}) {
      for (auto& [name, place] : entries->tensors) {
        if (auto found = listed_names.find(name); found != listed_names.end()) name = *found->second;
      }
    }
  }
}

llvm::Error CheckModuleTensors(const CheckpointFiles& files, const std::string& folder, const Degrees& degrees,
                               const std::vector<ModelStates>& states) {
  static const RE2 numbered(R"((\d{1,9})\..*)");
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    const ModelStates& rank = states[mp];
    const bool is_pipeline = !rank.has_module || !files.layers.empty();
    std::unordered_set<std::string_view> found;
    for (const ModuleEntries* entries : {&rank.module, &rank.frozen_fragments}) {
      for (const auto& [name, place] : entries->tensors) found.insert(name);
    }
    for (const auto& [list, listed] : ListedTensors(rank)) {
      const std::string& name = *listed;
      if (found.contains(name)) continue;
      if (IsExpertName(name) || IsFusedExpertName(rank, name)) continue;  // In files of their own.
      if (!is_pipeline) {
        return Fail(ErrorCode::kBadData, "`{}`: the module in `{}` has no tensor `{}`, and `{}` lists it", folder,
                    rank.path, name, list);
      }
      LayerOf place{0, static_cast<std::int64_t>(mp) % degrees.tp};
      if (!RE2::FullMatch(name, numbered, &place.layer)) continue;
      return FailForLayer(files, folder, place, list, name, rank.path);
    }
  }
  return llvm::Error::success();
}

llvm::Error ReadLayerFiles(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                           const Degrees& degrees, std::vector<ModelStates>& states, std::vector<std::string>& remarks,
                           std::optional<PipelineLayers>& pipeline) {
  if (files.layers.empty()) return llvm::Error::success();
  for (const ModelStates& rank : states) {
    if (rank.module.tensors.empty()) continue;
    return Fail(ErrorCode::kBadData,
                "`{}`: there is `{}`, and `{}` has the module of its rank itself, as beside experts; remove those that "
                "are stale",
                folder, files.layers.begin()->second, rank.path);
  }
  PipelineLayers layers;
  layers.has_tensor_axis = LayerName({0, 0}, files).find("-model_00") != std::string::npos;
  bool all_known = true;
  const PipelineNames names(states, degrees.tp);
  for (const auto& [place, path] : files.layers) {
    UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
    UCP_ASSIGN_OR_RETURN(ModuleEntries entries, ReadModule(archives, archive, archive.archive.root(), ""));
    auto layer = names.Find(place.layer, entries);
    if (!layer) {
      remarks.push_back(fmt::format(
          "`{}` fits several tied modules; its tensors are not used, their values come from the optimizer's files",
          path));
      all_known = false;
      continue;
    }
    layers.prefixes[place.layer] = layer->prefix;
    ModelStates& rank = states[static_cast<std::size_t>(layer->stage * degrees.tp + place.tp)];
    for (auto& [name, tensor] : entries.tensors)
      rank.module.tensors.emplace_back(layer->prefix + name, std::move(tensor));
    for (const pytorch::Entry& extra : entries.extras) {
      std::string name = layer->prefix + std::string(*pytorch::AsText(*extra.key));
      rank.module.extras.push_back({pytorch::MakeText(std::move(name)), extra.value});
    }
  }
  if (all_known) pipeline = std::move(layers);
  return llvm::Error::success();
}

void ShareTiedModules(const Degrees& degrees, std::vector<ModelStates>& states) {
  for (std::int64_t t = 0; t < degrees.tp; ++t) {
    std::map<std::string, TensorPlace> places;
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
      const ModelStates& rank = states[static_cast<std::size_t>(stage * degrees.tp + t)];
      places.insert(rank.module.tensors.begin(), rank.module.tensors.end());
    }
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
      ModelStates& rank = states[static_cast<std::size_t>(stage * degrees.tp + t)];
      std::unordered_set<std::string> own;
      for (const auto& [name, place] : rank.module.tensors) own.insert(name);
      for (const auto& group : rank.param_shapes) {
        for (const NamedShape& parameter : group) {
          auto found = places.find(parameter.name);
          if (found == places.end() || !own.insert(parameter.name).second) continue;
          rank.module.tensors.emplace_back(parameter.name, found->second);
        }
      }
    }
  }
}

llvm::Error AddModuleShards(SourceArchives& archives, const Degrees& degrees, const std::vector<ModelStates>& states,
                            Inventory& inventory) {
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    const RankModule module(states[mp], states.front().shared_params);
    inventory.aliases.insert(module.aliases().begin(), module.aliases().end());
    Coordinate coordinate;
    coordinate.at["pp"] = static_cast<std::int64_t>(mp) / degrees.tp;
    coordinate.at["tp"] = static_cast<std::int64_t>(mp) % degrees.tp;
    std::unordered_set<std::string_view> added;
    // Frozen parameters can be missing in the module, and stand in a list of their own.
    for (const ModuleEntries* entries : {&states[mp].module, &states[mp].frozen_fragments}) {
      for (const auto& [name, place] : entries->tensors) {
        if (!added.insert(name).second) continue;
        UCP_RETURN_IF_ERROR(module.CheckShape(name, place));
        Shard shard;
        shard.tensor = name;
        shard.kind = module.KindOf(name);
        shard.coordinate = coordinate;
        shard.shape = place.sizes;
        shard.strides = place.strides;
        shard.base = place.offset;
        shard.states = archives.BuffersOf(place, kWeightState);
        inventory.storage.shards.push_back(std::move(shard));
      }
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
