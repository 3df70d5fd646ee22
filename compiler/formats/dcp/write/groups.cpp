#include "compiler/formats/dcp/write/groups.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::dcp {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeNone;
using pytorch::MakeText;
using pytorch::ValuePtr;

// Settings of torch's optimizers that do not change what a step computes, or that are off by default. Its loaders ask
// for each of them, and other engines do not store them.
struct Default {
  std::string_view key;
  bool is_none = false;  // Otherwise False.
};
constexpr std::array<Default, 7> kOfAdam = {{{"amsgrad"},
                                             {"maximize"},
                                             {"foreach", true},
                                             {"capturable"},
                                             {"differentiable"},
                                             {"fused", true},
                                             {"decoupled_weight_decay"}}};  // AdamW sets it itself.
constexpr std::array<Default, 5> kOfSgd = {
    {{"nesterov"}, {"maximize"}, {"foreach", true}, {"differentiable"}, {"fused", true}}};
constexpr std::array<Default, 4> kOfOthers = {{{"maximize"}, {"foreach", true}, {"capturable"}, {"differentiable"}}};

// By the states that they keep.
std::span<const Default> DefaultsFor(const std::set<std::string>& states) {
  if (states.contains("exp_avg") && states.contains("exp_avg_sq")) return kOfAdam;
  if (states.contains("momentum_buffer") && !states.contains("square_avg")) return kOfSgd;
  if (states.contains("square_avg")) return kOfOthers;
  return {};
}

class Composer {
 public:
  Composer(const TrainingState& training, std::span<const LogicalTensor> tensors, const Style& style,
           TorchRelease release)
      : training_(training), style_(style), release_(release) {
    for (const LogicalTensor& tensor : tensors) tensors_.emplace(tensor.name, &tensor);
  }

  GroupEntries Run() {
    for (const OptimizerGroup& group : training_.groups) AddGroup(group);
    if (!style_.groups_by_parameter()) {
      Flatten(style_.Groups(), pytorch::MakeList(std::move(list_)), release_, result_.values);
    }
    return std::move(result_);
  }

 private:
  void AddGroup(const OptimizerGroup& group) {
    std::vector<std::string> names;  // Without those that the conversion drops.
    std::set<std::string> states;
    for (const std::string& parameter : group.parameters) {
      const LogicalTensor* tensor = Find(parameter);
      if (tensor == nullptr) continue;
      names.push_back(tensor->name);
      for (const LogicalTensor::State& state : tensor->states) states.insert(state.name);
    }
    std::vector<Entry> hyper_parameters = Complete(*group.hyper_parameters, states);
    if (style_.groups_by_parameter()) {
      for (const std::string& name : names) {
        for (const Entry& entry : hyper_parameters) {
          if (const auto key = pytorch::AsText(*entry.key)) {
            result_.values.push_back({style_.HyperParameter(name, std::string(*key)), entry.value});
          }
        }
      }
    } else {
      std::vector<ValuePtr> texts;
      for (const std::string& name : names) texts.push_back(MakeText(name));
      hyper_parameters.push_back({MakeText("params"), pytorch::MakeList(std::move(texts))});
      list_.push_back(pytorch::MakeDict(std::move(hyper_parameters)));
    }
    if (!group.step) return;
    const auto step = StepNumber(training_, *group.step);
    for (const std::string& name : names) {
      if (step) result_.steps.push_back({style_.State(name, "step"), *step});
    }
  }

  const LogicalTensor* Find(const std::string& parameter) const {
    const auto found = tensors_.find(parameter);
    if (found != tensors_.end()) return found->second;
    for (const auto& [alias, canonical] : training_.aliases) {
      const std::string& other = alias == parameter ? canonical : alias;
      if (alias != parameter && canonical != parameter) continue;
      if (const auto known = tensors_.find(other); known != tensors_.end()) return known->second;
    }
    return nullptr;
  }

  std::vector<Entry> Complete(const pytorch::Value& hyper_parameters, const std::set<std::string>& states) {
    std::vector<Entry> entries;
    if (const auto* given = pytorch::Entries(hyper_parameters)) entries = *given;
    std::erase_if(entries, [](const Entry& entry) { return pytorch::AsText(*entry.key) == "params"; });
    for (const Default& setting : DefaultsFor(states)) {
      const auto is_it = [&](const Entry& entry) { return pytorch::AsText(*entry.key) == setting.key; };
      if (std::ranges::any_of(entries, is_it)) continue;
      entries.push_back({MakeText(std::string(setting.key)), setting.is_none ? MakeNone() : MakeBool(false)});
      NoteAdded(setting.key);
    }
    AddInitialRate(entries);
    return entries;
  }

  // Schedulers of PyTorch keep the rate that they began with in the groups, and loaders of a job that has one ask for
  // it. A folder that PyTorch saved has it if its job had one.
  void AddInitialRate(std::vector<Entry>& entries) {
    if (KeptNamesOf(training_) != nullptr) return;
    const auto find = [&](std::string_view key) {
      return std::ranges::find_if(entries, [&](const Entry& entry) { return pytorch::AsText(*entry.key) == key; });
    };
    const auto rate = find("lr");
    if (rate == entries.end() || find("initial_lr") != entries.end()) return;
    const ValuePtr value = rate->value;
    entries.push_back({MakeText("initial_lr"), value});
    NoteAdded("initial_lr");
  }

  void NoteAdded(std::string_view key) {
    if (std::ranges::find(result_.added, key) == result_.added.end()) result_.added.emplace_back(key);
  }

  const TrainingState& training_;
  const Style& style_;
  const TorchRelease release_;
  std::vector<ValuePtr> list_;  // The groups, where they are not by parameter.
  std::unordered_map<std::string, const LogicalTensor*> tensors_;
  GroupEntries result_;
};

}  // namespace

GroupEntries EntriesOfGroups(const TrainingState& training, std::span<const LogicalTensor> tensors, const Style& style,
                             TorchRelease release) {
  return Composer(training, tensors, style, release).Run();
}

}  // namespace ucp::dcp
