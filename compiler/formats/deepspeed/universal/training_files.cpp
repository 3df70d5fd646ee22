#include "compiler/formats/deepspeed/universal/training_files.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/layout/wrapper_names.h"

#include <string_view>
#include <unordered_map>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::universal {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

bool IsTrained(const LogicalTensor& tensor) { return tensor.kind == TensorKind::kParameter; }

bool IsDynamic(const pytorch::Value& loss_scaler) {
  ValuePtr dynamic = pytorch::Find(loss_scaler, "dynamic");
  return !dynamic || pytorch::AsBool(*dynamic).value_or(true);
}

class ModelStatesComposer {
 public:
  ModelStatesComposer(std::span<const LogicalTensor> tensors, const TrainingState& training, const Loader& loader)
      : tensors_(tensors), training_(training), folding_(loader.folding), ranks_(loader.ranks) {}

  // `held` receives the tensors that the file holds; null: none.
  ValuePtr Value(std::int64_t rank, ArchiveComposer& composer, std::vector<const LogicalTensor*>* held) const {
    std::vector<Entry> module;
    for (const LogicalTensor& tensor : tensors_) {
      if (held == nullptr || IsTrained(tensor) || tensor.states.empty()) continue;
      module.push_back(
          {MakeText(NameInStateDict(tensor.name)), composer.AddTensor(tensor.states.front().dtype, tensor.shape)});
      held->push_back(&tensor);
    }
    std::vector<Entry> entries = composer.AddEntries(training_.engine);
    entries.push_back({MakeText("mp_world_size"), MakeInteger(ranks_)});
    if (folding_) entries.push_back({MakeText("folding"), FoldingOf(rank)});
    for (Entry& entry : composer.AddEntries(SourceRank(rank).client)) entries.push_back(std::move(entry));
    for (Entry& entry : composer.AddEntries(ModuleExtras(rank))) module.push_back(std::move(entry));
    std::vector<Entry> all = {{MakeText("module"), pytorch::MakeOrderedDict(std::move(module))}};
    if (rank == 0) {
      for (Entry& entry : Names()) all.push_back(std::move(entry));
      const deepspeed::FamilyState& state = deepspeed::StateOf(training_);
      if (state.pipeline) all.push_back(PipelineEntry(*state.pipeline));
      if (!state.expert_layers.empty()) all.push_back(ExpertLayersEntry(state.expert_layers));
    }
    for (Entry& entry : entries) all.push_back(std::move(entry));
    return MakeDict(std::move(all));
  }

 private:
  // Of the first replica, whose ranks are counted first.
  ValuePtr FoldingOf(std::int64_t rank) const {
    Folding folding = *folding_;
    folding.tp_rank = rank;
    folding.ep_rank = rank % folding.ep_size;
    return ComposeFolding(folding);
  }

  // If the number of ranks changes, the state of one counts for all: of rank 0 as DeepSpeed has it, or whom the user
  // believes.
  const RankState& SourceRank(std::int64_t rank) const {
    const auto count = static_cast<std::int64_t>(training_.ranks.size());
    return training_.ranks[ranks_ == count ? static_cast<std::size_t>(rank) : training_.counting_rank];
  }

  std::vector<Entry> ModuleExtras(std::int64_t rank) const {
    if (ranks_ == static_cast<std::int64_t>(training_.ranks.size())) return SourceRank(rank).module_extras;
    std::vector<Entry> extras;
    for (const RankState& source : training_.ranks) {
      for (const Entry& entry : source.module_extras) {
        auto name = pytorch::AsText(*entry.key);
        if (name && !FindEntry(extras, *name)) extras.push_back(entry);
      }
    }
    return extras;
  }

  // The list of tensors: the first rank's file says it for all.
  std::vector<Entry> Names() const {
    std::unordered_map<std::string_view, const LogicalTensor*> by_name;
    std::vector<ValuePtr> buffer_names;
    std::vector<Entry> frozen;
    for (const LogicalTensor& tensor : tensors_) {
      by_name.emplace(tensor.name, &tensor);
      if (tensor.kind == TensorKind::kBuffer) buffer_names.push_back(MakeText(tensor.name));
      if (tensor.kind == TensorKind::kFrozen) frozen.push_back(ShapeEntry(tensor));
    }
    std::vector<ValuePtr> groups;
    for (const OptimizerGroup& group : training_.groups) {
      std::vector<Entry> shapes;
      for (const std::string& name : group.parameters) {
        auto tensor = by_name.find(name);
        if (tensor != by_name.end() && IsTrained(*tensor->second)) shapes.push_back(ShapeEntry(*tensor->second));
      }
      groups.push_back(pytorch::MakeOrderedDict(std::move(shapes)));
    }
    std::vector<Entry> shared;
    for (const auto& [alias, canonical] : training_.aliases) shared.push_back({MakeText(alias), MakeText(canonical)});
    return {{MakeText("buffer_names"), pytorch::MakeList(std::move(buffer_names))},
            {MakeText("param_shapes"), pytorch::MakeList(std::move(groups))},
            {MakeText("frozen_param_shapes"), deepspeed::StateOf(training_).excludes_frozen
                                                  ? pytorch::MakeNone()
                                                  : pytorch::MakeOrderedDict(std::move(frozen))},
            {MakeText("shared_params"), MakeDict(std::move(shared))}};
  }

  static Entry ShapeEntry(const LogicalTensor& tensor) {
    return {MakeText(tensor.name), pytorch::MakeTorchSize(tensor.shape)};
  }

  std::span<const LogicalTensor> tensors_;
  const TrainingState& training_;
  const std::optional<Folding>& folding_;
  const std::int64_t ranks_;
};

}  // namespace

ComposedArchive ComposeOptimizerState(const TrainingState& training) {
  ArchiveComposer composer(training);
  std::vector<Entry> entries;
  for (const Entry& entry : training.optimizer) {
    auto key = pytorch::AsText(*entry.key);
    if (key == "ds_version" || key == "param_groups" || key == "optimizer_state_dict") continue;
    // A static one says only what the job's own configuration says again, and needs a class of DeepSpeed's.
    if (key == "loss_scaler" && !IsDynamic(*entry.value)) continue;
    entries.push_back(entry);
  }
  entries = composer.AddEntries(entries);
  entries.push_back({MakeText("ds_version"), deepspeed::VersionOf(training)});
  std::vector<ValuePtr> groups;
  for (std::size_t g = 0; g < training.groups.size(); ++g) {
    std::vector<Entry> group = composer.AddEntries(*pytorch::Entries(*training.groups[g].hyper_parameters));
    group.push_back({MakeText("params"), pytorch::MakeList({MakeInteger(static_cast<std::int64_t>(g))})});
    groups.push_back(MakeDict(std::move(group)));
  }
  std::vector<Entry> state;
  if (!training.groups.empty() && training.groups.front().step) {
    state.push_back({MakeText("step"), composer.AddValue(training.groups.front().step)});
  }
  ValuePtr list = pytorch::MakeList(std::move(groups));
  entries.push_back({MakeText("param_groups"), list});
  ValuePtr states = MakeDict({{MakeInteger(0), MakeDict(std::move(state))}});
  entries.push_back({MakeText("optimizer_state_dict"),
                     MakeDict({{MakeText("state"), std::move(states)}, {MakeText("param_groups"), list}})});
  return composer.Compose(MakeDict(std::move(entries)));
}

ComposedModelStates ComposeModelStates(std::span<const LogicalTensor> tensors, const TrainingState& training,
                                       const Loader& loader, std::int64_t rank) {
  const ModelStatesComposer states(tensors, training, loader);
  ComposedModelStates composed;
  ArchiveComposer composer(training);
  composed.archive = composer.Compose(states.Value(rank, composer, rank == 0 ? &composed.held : nullptr));
  ArchiveComposer without_tensors(training);
  composed.without_tensors = without_tensors.Compose(states.Value(rank, without_tensors, nullptr));
  return composed;
}

}  // namespace ucp::universal
