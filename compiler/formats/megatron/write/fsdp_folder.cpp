// A plain folder of PyTorch's Distributed Checkpoint, in a root with a tracker file:
//
//   latest_checkpointed_iteration.txt     1000
//   iter_0001000/__<file>_0.distcp        in the first file values first; then weights; then states
//   iter_0001000/.metadata                where they are
//
// Its entries are those of the modules of a job: layers and experts have numbers, halves of gated layers are apart, and
// a wrapper or two stand before each name.
#include "compiler/formats/megatron/write/fsdp_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/counted_entries.h"
#include "compiler/formats/dcp/write/element_items.h"
#include "compiler/formats/dcp/write/flatten.h"
#include "compiler/formats/dcp/write/folder.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/formats/megatron/write/common_file.h"
#include "compiler/formats/megatron/write/equal_parts.h"
#include "compiler/formats/megatron/write/optimizers.h"
#include "compiler/formats/megatron/write/stacks.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::megatron {
namespace {

using dcp::EntryPath;
using pytorch::Entry;
using pytorch::ValuePtr;

constexpr std::string_view kInModel = "module.";             // Before the names of the model's entries,
constexpr std::string_view kInOptimizer = "module.module.";  // and of the optimizer's.
constexpr std::string_view kSeeds = "rng_state";
constexpr dcp::TorchRelease kRelease24 = dcp::TorchRelease::kSince24;

// A tensor of a module, which is part of one of the model: of one layer, one expert, one half.
struct ModulePart {
  std::vector<std::int64_t> place;  // In the dimensions that count layers and experts.
  std::int64_t half = -1;           // 0: the gate's; -1: it has no halves.
  bool operator==(const ModulePart&) const = default;
};

class Writer {
 public:
  Writer(const TargetRequest& request, const TargetOptions& options)
      : request_(request),
        options_(options),
        form_(FormOf(ArgsIn(request.training))),
        gated_(GatedTensors(request.tensors)),
        has_optimizer_(!options.weights_alone && !request.training.groups.empty()),
        folder_(FolderOf(IterationOf(request.training)) + "/"),
        items_(request, nullptr, target_) {}

  llvm::Expected<TargetFiles> Run() {
    target_.format = "megatron";
    target_.mesh = request_.layout.mesh;
    target_.weights_only = options_.weights_alone;
    UCP_RETURN_IF_ERROR(CheckNamesOfModel(request_.tensors));
    UCP_RETURN_IF_ERROR(CheckTensorsOfModules(request_.tensors));
    if (options_.expert_parallel) {
      UCP_RETURN_IF_ERROR(CheckExpertsShareOut(request_.tensors, *options_.expert_parallel));
    }
    if (has_optimizer_) {
      UCP_RETURN_IF_ERROR(CheckOptimizerIsWhole(training()));
      UCP_ASSIGN_OR_RETURN(optimizers_, OptimizersOf(training().groups, options_.expert_parallel));
    }
    AddFile(target_, kTracker, TrackerText(training()));
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) items_.AddHolder(t);
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) UCP_RETURN_IF_ERROR(AddModel(t));
    if (has_optimizer_) UCP_RETURN_IF_ERROR(AddOptimizer());
    UCP_RETURN_IF_ERROR(AddOthers());
    items_.Write(entries_, kRelease24);
    items_.AddShards();
    return std::move(target_);
  }

 private:
  const TrainingState& training() const { return request_.training; }
  const std::vector<Entry>& client() const { return request_.training.ranks[training().counting_rank].client; }

  // The weights are the masters.
  llvm::Error AddModel(std::size_t t) {
    const LogicalTensor& tensor = request_.tensors[t];
    const LogicalTensor::State* master = FindState(tensor, kMasterState);
    const LogicalTensor::State* fed = master != nullptr ? master : FindState(tensor, kWeightState);
    if (fed == nullptr) {
      return Fail(ErrorCode::kUnsupported, "tensor `{}` has neither a weight nor a master", tensor.name);
    }
    if (!options_.weights_alone) {
      return AddParts({t, fed->name, fed->dtype}, [](const std::string& name) { return OfModel(name); });
    }
    const bool is_cast = options_.dtype && tensor.kind != TensorKind::kBuffer && IsFloatingPoint(fed->dtype);
    const DType dtype = is_cast ? *options_.dtype : tensor.weight.value_or(fed->dtype);
    return AddParts({t, kWeightState, dtype}, [](const std::string& name) { return OfModel(name); });
  }

  static EntryPath OfModel(const std::string& name) { return {"model", fmt::format("{}{}", kInModel, name)}; }
  static EntryPath OfOptimizer(const char* table, const std::string& name, std::string_view key) {
    return {"optimizer", table, fmt::format("{}{}", kInOptimizer, name), std::string(key)};
  }

  llvm::Error AddOptimizer() {
    std::unordered_map<std::string_view, std::size_t> number;
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) number.emplace(request_.tensors[t].name, t);
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) {
      for (const LogicalTensor::State& state : request_.tensors[t].states) {
        if (state.name == kWeightState || state.name == kMasterState) continue;
        UCP_RETURN_IF_ERROR(AddParts({t, state.name, state.dtype},
                                     [&](const std::string& name) { return OfOptimizer("state", name, state.name); }));
      }
    }
    for (const std::vector<OptimizerGroup>& groups : optimizers_) {
      for (const OptimizerGroup& group : groups) {
        for (const std::string& parameter : group.parameters) {
          const auto found = number.find(parameter);
          if (found != number.end()) UCP_RETURN_IF_ERROR(AddSettings(group, request_.tensors[found->second]));
        }
      }
    }
    return llvm::Error::success();
  }

  // Of each module's parameter. PyTorch's own Adam keeps a step beside the states, of either half of a gated one; that
  // of Transformer Engine keeps it among the settings. Each ignores the other's.
  llvm::Error AddSettings(const OptimizerGroup& group, const LogicalTensor& tensor) {
    const double step = *StepNumber(training(), *group.step);
    const std::size_t stacked = std::min(StackedDimensions(tensor.name), tensor.shape.size());
    for (const std::vector<std::int64_t>& place : PlacesIn(std::span(tensor.shape).first(stacked))) {
      const std::string name = NameInModule(tensor.name, place, form_);
      for (const Entry& entry : *pytorch::Entries(*group.hyper_parameters)) {
        const auto key = pytorch::AsText(*entry.key);
        if (!key || key == "params" || key == "step") continue;
        UCP_RETURN_IF_ERROR(AddValue({OfOptimizer(kSettings, name, *key), entry.value}));
      }
      UCP_RETURN_IF_ERROR(AddValue({OfOptimizer(kSettings, name, "step"), StepOfSettings(group)}));
      for (const std::string_view half : HalvesOf(tensor)) {
        UCP_RETURN_IF_ERROR(AddStep(OfOptimizer("state", fmt::format("{}{}", name, half), "step"), step));
      }
    }
    return llvm::Error::success();
  }

  ValuePtr StepOfSettings(const OptimizerGroup& group) {
    if (pytorch::AsInteger(*group.step)) return group.step;
    ValuePtr& known = step_of_settings_[group.step];
    if (known == nullptr) known = pytorch::MakeDouble(*StepNumber(training(), *group.step));
    return known;
  }

  std::vector<std::string_view> HalvesOf(const LogicalTensor& tensor) const {
    if (!gated_.contains(tensor.name)) return {""};
    return {kHalves.begin(), kHalves.end()};
  }

  // An entry for each of the tensor's parts, whose boxes follow one another.
  template <typename PathOf>
  llvm::Error AddParts(dcp::Elements elements, const PathOf& path_of) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const LogicalTensor& tensor = request_.tensors[elements.holder];
    const std::size_t stacked = std::min(StackedDimensions(tensor.name), tensor.shape.size());
    const std::int64_t rows = gated_.contains(tensor.name) ? tensor.shape[stacked] / 2 : 0;
    std::optional<ModulePart> last;
    dcp::WrittenEntry* entry = nullptr;
    for (elements.box = 0; elements.box < items_.BoxesOf(elements.holder); ++elements.box) {
      dcp::WrittenChunk chunk = items_.BoxOf(elements.holder, elements.box);
      const auto own = static_cast<std::ptrdiff_t>(stacked);
      ModulePart part{{chunk.offsets.begin(), chunk.offsets.begin() + own}};
      if (rows > 0) part.half = chunk.offsets[stacked] / rows;
      if (rows > 0) chunk.offsets[stacked] %= rows;
      chunk.offsets.erase(chunk.offsets.begin(), chunk.offsets.begin() + own);
      chunk.sizes.erase(chunk.sizes.begin(), chunk.sizes.begin() + own);
      if (part != last) {
        std::string name = NameInModule(tensor.name, part.place, form_);
        if (rows > 0) name += kHalves.at(static_cast<std::size_t>(part.half));
        UCP_ASSIGN_OR_RETURN(entry, entries_.NewEntry(path_of(name)));
        entry->shape.assign(tensor.shape.begin() + own, tensor.shape.end());
        if (rows > 0) entry->shape.front() = rows;
        last = std::move(part);
      }
      items_.AddBox(entries_, *entry, elements, std::move(chunk));
    }
    return llvm::Error::success();
  }

  llvm::Error AddOthers() {
    std::vector<Entry> others;
    std::vector<Entry> seeds;
    std::set<std::string> places;  // Data-parallel ranks may each have some. The first ones are taken.
    std::set<std::string> left;
    for (const Entry& entry : client()) {
      const std::string key(pytorch::AsText(*entry.key).value_or(""));
      const bool is_object = IsObjectKey(key);
      if (auto place = is_object ? PlaceOfSeeds(key) : std::nullopt) {
        if (places.insert(*place).second) seeds.push_back({pytorch::MakeText(*std::move(place)), entry.value});
      } else if (is_object) {
        left.insert(key.substr(0, key.find('/')));
      } else if (!key.empty() && key != "content_metadata" && key != "iteration") {
        others.push_back(entry);
      }
    }
    if (FindEntry(others, "checkpoint_version") == nullptr) {
      others.push_back({pytorch::MakeText("checkpoint_version"), pytorch::MakeDouble(3)});
    }
    others.push_back({pytorch::MakeText("iteration"), pytorch::MakeInteger(IterationOf(training()).value_or(0))});
    if (!seeds.empty()) others.push_back({pytorch::MakeText(std::string(kSeeds)), pytorch::MakeDict(std::move(seeds))});
    for (const Entry& entry : options_.weights_alone ? std::vector<Entry>() : others) {
      std::vector<dcp::FlatEntry> flat;
      dcp::Flatten({std::string(*pytorch::AsText(*entry.key))}, entry.value, kRelease24, flat);
      for (const dcp::FlatEntry& value : flat) UCP_RETURN_IF_ERROR(AddValue(value));
    }
    if (!options_.weights_alone) RemarkOn(std::move(left));
    return llvm::Error::success();
  }

  // "(0, 1)" of "rng_state/shard_0.1_2.2" and of "rng_state/shard_0.1.3_2.2.4": the stage, and the tensor-parallel
  // rank.
  static std::optional<std::string> PlaceOfSeeds(std::string_view key) {
    const std::string begin = fmt::format("{}/shard_", kSeeds);
    if (!key.starts_with(begin)) return std::nullopt;
    const std::string_view place = key.substr(begin.size(), key.find('_', begin.size()) - begin.size());
    const std::size_t dot = place.find('.');
    if (dot == place.npos) return std::nullopt;
    const std::string_view behind = place.substr(dot + 1);
    return fmt::format("({}, {})", place.substr(0, dot), behind.substr(0, behind.find('.')));
  }

  void RemarkOn(std::set<std::string> left) {
    for (const Entry& entry : training().engine) {
      if (!IsCountedEntry(training(), entry)) left.emplace(pytorch::AsText(*entry.key).value_or(""));
    }
    for (const Entry& entry : training().optimizer) left.emplace(pytorch::AsText(*entry.key).value_or(""));
    for (const Entry& entry : training().ranks[training().counting_rank].module_extras) {
      if (!entry.value->is_none()) left.emplace("_extra_state");
    }
    if (left.empty()) return;
    target_.remarks.push_back(
        fmt::format("entries that jobs under Megatron-FSDP do not load are left out: {}", fmt::join(left, ", ")));
  }

  llvm::Error AddStep(EntryPath path, double step) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(step));
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
    if (step_ == nullptr) {  // All groups are at the same.
      ArchiveComposer composer(training());
      const ValuePtr tensor = composer.AddData(DType::kFloat32, {}, std::move(bytes));
      step_ = &archives_.emplace_back(Share(target_, composer.Compose(tensor)));
    }
    UCP_ASSIGN_OR_RETURN(dcp::WrittenEntry * entry, entries_.NewEntry(std::move(path)));
    entry->is_tensor = true;
    entries_.AddKnown(step_);
    return llvm::Error::success();
  }

  llvm::Error AddValue(const dcp::FlatEntry& value) {
    const SharedArchive*& archive = archive_of_value_[value.value];
    if (archive == nullptr) {
      ArchiveComposer composer(training());
      archive = &archives_.emplace_back(Share(target_, composer.Compose(composer.AddValue(value.value))));
    }
    UCP_ASSIGN_OR_RETURN(dcp::WrittenEntry * entry, entries_.NewEntry(value.path));
    if (const auto* tensor = value.value->As<pytorch::Tensor>()) {
      entry->is_tensor = true;
      entry->dtype = tensor->dtype;
      entry->shape = tensor->sizes;
    }
    entries_.AddKnown(archive);
    return llvm::Error::success();
  }

  static constexpr const char* kSettings = "param_to_group_meta";
  static constexpr std::array<std::string_view, 2> kHalves = {"_w", "_v"};

  const TargetRequest& request_;
  const TargetOptions options_;
  const ModuleForm form_;
  const std::set<std::string> gated_;
  const bool has_optimizer_;
  const std::string folder_;
  Optimizers optimizers_;
  TargetFiles target_;
  dcp::ElementItems items_;
  dcp::Folder entries_{folder_};
  std::deque<SharedArchive> archives_;  // The following members point into them.
  const SharedArchive* step_ = nullptr;
  std::unordered_map<ValuePtr, const SharedArchive*> archive_of_value_;
  std::unordered_map<ValuePtr, ValuePtr> step_of_settings_;
};

}  // namespace

llvm::Expected<TargetFiles> LayOutFsdpFolder(const TargetRequest& request, const TargetOptions& options) {
  return Writer(request, options).Run();
}

}  // namespace ucp::megatron
