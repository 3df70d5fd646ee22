#include "compiler/formats/deepspeed/common/model_states.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::AsInteger;
using pytorch::AsText;
using pytorch::Entries;
using pytorch::Find;
using pytorch::Items;
using pytorch::Value;
using pytorch::ValuePtr;

constexpr int kModuleDepth = 32;

// Entries that the engine itself saves and restores; carried on.
constexpr std::array<std::string_view, 11> kEngineKeys = {"lr_scheduler",
                                                          "data_sampler",
                                                          "random_ltd",
                                                          "sparse_tensor_module_names",
                                                          "csr_tensor_module_names",
                                                          "global_steps",
                                                          "global_samples",
                                                          "skipped_steps",
                                                          "dp_world_size",
                                                          "ds_config",
                                                          "ds_version"};
// Entries that describe this cut of the model, and are read here.
constexpr std::array<std::string_view, 13> kStructureKeys = {"module",
                                                             "buffer_names",
                                                             "optimizer",
                                                             "param_shapes",
                                                             "shared_params",
                                                             "frozen_param_shapes",
                                                             "frozen_param_fragments",
                                                             "mp_world_size",
                                                             "checkpoint_parallel_dimensions",
                                                             "num_experts",
                                                             "ds_autoep_layers",
                                                             "autoep_layers",
                                                             "folding"};

// Of a partition whose other entries are not carried on; what else is a text or a number is also compared.
constexpr std::array<std::string_view, 9> kComparedKeys = {
    "lr_scheduler", "global_steps", "global_samples",           "skipped_steps", "dp_world_size", "ds_config",
    "ds_version",   "iteration",    "universal_checkpoint_info"};

bool Contains(auto& keys, std::string_view key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

bool IsPresent(const ValuePtr& value) { return value && !value->is_none(); }

llvm::Error Unsupported(const SourceArchive& archive, const std::string& found) {
  return Fail(ErrorCode::kUnsupported, "`{}` {}, which this version does not read yet", archive.readable->path(),
              found);
}

llvm::Error CheckServed(const SourceArchive& archive, bool has_visitor) {
  const Value& root = archive.root();
  if (Entries(root) == nullptr) {
    return Fail(ErrorCode::kBadData, "`{}` does not hold a dict, as a model-states file does",
                archive.readable->path());
  }
  const bool has_optimizer = IsPresent(Find(root, "optimizer"));
  if (has_optimizer && !has_visitor) {
    return Unsupported(archive, "holds an optimizer beside the one in other files, as a pipeline without ZeRO does");
  }
  return llvm::Error::success();
}

std::set<std::string> ReadNames(const ValuePtr& value) {
  std::set<std::string> names;
  const auto* items = value ? Items(*value) : nullptr;
  if (items == nullptr) return names;
  for (const ValuePtr& item : *items) {
    if (auto name = AsText(*item)) names.emplace(*name);
  }
  return names;
}

std::map<std::string, std::string> ReadSharedParams(const ValuePtr& value) {
  std::map<std::string, std::string> shared;
  const auto* entries = value ? Entries(*value) : nullptr;
  if (entries == nullptr) return shared;
  for (const pytorch::Entry& entry : *entries) {
    auto alias = AsText(*entry.key);
    auto canonical = AsText(*entry.value);
    if (alias && canonical && *alias != *canonical) shared.emplace(*alias, *canonical);
  }
  return shared;
}

std::optional<std::int64_t> FindInteger(const Value& value, std::string_view key) {
  ValuePtr found = Find(value, key);
  return found ? AsInteger(*found) : std::nullopt;
}

llvm::Error ReadParamShapes(const SourceArchive& archive, ModelStates& states) {
  ValuePtr value = Find(archive.root(), "param_shapes");
  if (!IsPresent(value)) return llvm::Error::success();
  const auto* groups = Items(*value);
  if (groups == nullptr) return Unsupported(archive, "has `param_shapes` that are not a list of groups");
  states.has_param_shapes = true;
  for (const ValuePtr& group : *groups) {
    UCP_ASSIGN_OR_RETURN(std::vector<NamedShape> shapes, ReadShapes(archive, *group, "param_shapes"));
    states.param_shapes.push_back(std::move(shapes));
  }
  return llvm::Error::success();
}

// The engine's and the script's entries in one go, so that what they share stays shared.
llvm::Error ReadCarriedEntries(SourceArchives& archives, const SourceArchive& archive, ModelStatesOf of,
                               ModelStates& states) {
  std::vector<pytorch::Entry> carried;
  for (const pytorch::Entry& entry : *Entries(archive.root())) {
    auto key = AsText(*entry.key);
    const bool is_structure = key && Contains(kStructureKeys, *key);
    const bool is_compared = key && (Contains(kComparedKeys, *key) || (!is_structure && IsPlain(*entry.value)));
    const bool is_wanted = of == ModelStatesOf::kFurtherPartition ? is_compared : !is_structure;
    if (is_wanted) carried.push_back(entry);
  }
  UCP_ASSIGN_OR_RETURN(ValuePtr kept,
                       archives.Keep(archive, pytorch::MakeDict(std::move(carried)), "its client state"));
  for (const pytorch::Entry& entry : *Entries(*kept)) {
    auto key = AsText(*entry.key);
    (key && Contains(kEngineKeys, *key) ? states.engine : states.client).push_back(entry);
  }
  return llvm::Error::success();
}

struct ModuleReader {
  SourceArchives& archives;
  const SourceArchive& archive;
  ModuleEntries& entries;

  llvm::Error Read(const ValuePtr& value, const std::string& name, int depth) {
    if (const auto* tensor = value->As<pytorch::Tensor>()) {
      entries.tensors.emplace_back(name, archives.PlaceOf(archive, *tensor));
      return llvm::Error::success();
    }
    const auto* children = Entries(*value);
    const bool is_tree = children != nullptr && HoldsTensors(*children) && depth < kModuleDepth;
    if (!is_tree || llvm::StringRef(name).ends_with("_extra_state")) return ReadExtra(value, name);
    for (const pytorch::Entry& child : *children) {
      auto key = AsText(*child.key);
      if (!key) {
        return Fail(ErrorCode::kUnsupported, "`{}`: an entry of `{}` in the module has a key that is not a string",
                    archive.readable->path(), name);
      }
      UCP_RETURN_IF_ERROR(
          Read(child.value, name.empty() ? std::string(*key) : name + "." + std::string(*key), depth + 1));
    }
    return llvm::Error::success();
  }

  // A dict that is not a part of the module tree is some layer's extra state.
  static bool HoldsTensors(const std::vector<pytorch::Entry>& children) {
    return std::any_of(children.begin(), children.end(), [](const pytorch::Entry& child) {
      return child.value->As<pytorch::Tensor>() != nullptr || Entries(*child.value) != nullptr;
    });
  }

  llvm::Error ReadExtra(const ValuePtr& value, const std::string& name) {
    UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives.Keep(archive, value, fmt::format("`{}` in the module", name)));
    entries.extras.push_back({pytorch::MakeText(name), std::move(kept)});
    return llvm::Error::success();
  }
};

}  // namespace

llvm::Expected<ModuleEntries> ReadModule(SourceArchives& archives, const SourceArchive& archive, const ValuePtr& module,
                                         const std::string& prefix) {
  ModuleEntries entries;
  if (!IsPresent(module)) return entries;
  const auto* children = Entries(*module);
  if (children == nullptr) {
    return Fail(ErrorCode::kBadData, "`{}`: the module is not a dict of tensors", archive.readable->path());
  }
  ModuleReader reader{archives, archive, entries};
  for (const pytorch::Entry& child : *children) {
    auto key = AsText(*child.key);
    if (!key) {
      return Fail(ErrorCode::kBadData, "`{}`: the module has a key that is not a string", archive.readable->path());
    }
    UCP_RETURN_IF_ERROR(reader.Read(child.value, prefix + std::string(*key), 0));
  }
  return entries;
}

llvm::Expected<std::vector<NamedShape>> ReadShapes(const SourceArchive& archive, const Value& value,
                                                   const std::string& what) {
  std::vector<NamedShape> shapes;
  const auto* entries = Entries(value);
  if (entries == nullptr) {
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is not a dict of shapes", archive.readable->path(), what);
  }
  for (const pytorch::Entry& entry : *entries) {
    auto name = AsText(*entry.key);
    auto shape = pytorch::AsIntegers(*entry.value);
    bool is_shape = name && shape && std::all_of(shape->begin(), shape->end(), [](auto size) { return size >= 0; });
    if (!is_shape) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has an entry `{}` that is not a shape", archive.readable->path(),
                  what, name ? std::string(*name) : std::string("?"));
    }
    shapes.push_back({std::string(*name), std::move(*shape)});
  }
  return shapes;
}

llvm::Expected<ModelStates> ReadModelStates(SourceArchives& archives, const std::string& path, ModelStatesOf of,
                                            const OptimizerVisitor& visit_optimizer) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  UCP_RETURN_IF_ERROR(CheckServed(archive, visit_optimizer != nullptr));
  const Value& root = archive.root();
  ModelStates states;
  states.path = path;
  UCP_RETURN_IF_ERROR(ReadParamShapes(archive, states));
  if (ValuePtr experts = Find(root, "num_experts"); IsPresent(experts)) {
    auto counts = pytorch::AsIntegers(*experts);
    if (!counts) return Unsupported(archive, "has `num_experts` as one number: experts of an older DeepSpeed");
    states.num_experts = std::move(*counts);
  }
  for (const char* key : {"ds_autoep_layers", "autoep_layers"}) {  // The second is the older name.
    ValuePtr layers = Find(root, key);
    if (!IsPresent(layers) || !states.autoep_layers.empty()) continue;
    UCP_ASSIGN_OR_RETURN(states.autoep_layers, ReadAutoEpLayers(*layers, path));
  }
  UCP_ASSIGN_OR_RETURN(states.folding, ReadFolding(root, path));
  states.has_module = IsPresent(Find(root, "module"));
  UCP_ASSIGN_OR_RETURN(states.module, ReadModule(archives, archive, Find(root, "module"), ""));
  UCP_ASSIGN_OR_RETURN(states.frozen_fragments,
                       ReadModule(archives, archive, Find(root, "frozen_param_fragments"), ""));
  ValuePtr frozen = Find(root, "frozen_param_shapes");
  states.lists_no_frozen = frozen && frozen->is_none();
  if (IsPresent(frozen)) {
    UCP_ASSIGN_OR_RETURN(std::vector<NamedShape> shapes, ReadShapes(archive, *frozen, "frozen_param_shapes"));
    for (NamedShape& shape : shapes) states.frozen_shapes.emplace(std::move(shape.name), std::move(shape.shape));
  }
  states.buffer_names = ReadNames(Find(root, "buffer_names"));
  states.shared_params = ReadSharedParams(Find(root, "shared_params"));
  states.mp_world_size = FindInteger(root, "mp_world_size");
  if (ValuePtr degrees = Find(root, "checkpoint_parallel_dimensions"); IsPresent(degrees)) {
    states.pp_degree = FindInteger(*degrees, "pp_degree");
    states.tp_degree = FindInteger(*degrees, "tp_degree");
  }
  if (ValuePtr optimizer = Find(root, "optimizer"); IsPresent(optimizer)) {
    UCP_RETURN_IF_ERROR(visit_optimizer(archive, optimizer));
  }
  UCP_RETURN_IF_ERROR(ReadCarriedEntries(archives, archive, of, states));
  return states;
}

bool ExcludesFrozen(const ModelStates& states) {
  ValuePtr config = FindEntry(states.engine, "ds_config");
  ValuePtr zero = config ? Find(*config, "zero_optimization") : nullptr;
  ValuePtr stage = zero ? Find(*zero, "stage") : nullptr;
  return states.lists_no_frozen && stage && pytorch::AsInteger(*stage).value_or(0) >= 2;
}

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool IsPlain(const pytorch::Value& value) {
  return AsText(value) || pytorch::AsDouble(value) || pytorch::AsBool(value);
}

}  // namespace ucp
