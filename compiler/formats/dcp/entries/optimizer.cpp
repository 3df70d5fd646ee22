#include "compiler/formats/dcp/entries/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "compiler/formats/dcp/entries/nested.h"
#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::dcp {
namespace {

using pytorch::ValuePtr;

// A group as the file has it.
struct ReadGroup {
  ValuePtr hyper_parameters;  // A dict without the parameters.
  std::vector<std::string> parameters;
};

class Reader {
 public:
  Reader(const Roles& roles, const ValueOfEntry& values, const std::set<std::string>& trained)
      : roles_(roles), values_(values), trained_(trained) {
    for (const StateEntry& state : roles.states) {
      if (state.state == "step") step_of_.emplace(state.parameter, values.at(state.entry));
    }
    for (const ModelEntry& tensor : roles.tensors) names_.insert(tensor.name);
  }

  Optimizer Run() {
    std::vector<ReadGroup> groups;
    for (const GroupEntry& entry : roles_.groups) {
      if (entry.path.empty()) ReadList(*values_.at(entry.entry), groups);
    }
    ReadNumbered(groups);
    ReadOfParameters(groups);
    for (ReadGroup& group : groups) Add(group);
    for (const std::string& name : trained_) {
      if (group_of_.contains(name) || !result_.unread.empty()) continue;
      result_.unread =
          fmt::format("the optimizer has states of `{}`, and none of its {} groups lists it", name, groups.size());
    }
    return std::move(result_);
  }

 private:
  // Up to PyTorch 2.3: the list as a whole.
  void ReadList(const pytorch::Value& list, std::vector<ReadGroup>& groups) {
    const auto* items = pytorch::Items(list);
    for (const ValuePtr& item : items == nullptr ? std::vector<ValuePtr>() : *items) {
      const auto* entries = pytorch::Entries(*item);
      if (entries != nullptr) Split(*entries, groups);
    }
  }

  // The parameters of a group are an entry of it.
  void Split(const std::vector<pytorch::Entry>& entries, std::vector<ReadGroup>& groups) {
    ReadGroup group;
    std::vector<pytorch::Entry> hyper_parameters;
    for (const pytorch::Entry& entry : entries) {
      const auto key = pytorch::AsText(*entry.key);
      if (key == "params") {
        TakeParameters(*entry.value, group);
      } else if (key != "param_names") {  // The same names again.
        hyper_parameters.push_back(entry);
      }
    }
    group.hyper_parameters = pytorch::MakeDict(std::move(hyper_parameters));
    groups.push_back(std::move(group));
  }

  void TakeParameters(const pytorch::Value& list, ReadGroup& group) {
    const auto* items = pytorch::Items(list);
    if (items == nullptr) return;
    for (const ValuePtr& item : *items) {
      const auto name = pytorch::AsText(*item);
      std::string plain = name ? NameInModel(*name) : "";
      if (!plain.empty()) {
        group.parameters.push_back(std::move(plain));
      } else if (result_.unread.empty()) {
        result_.unread = fmt::format(
            "a group of the optimizer lists the parameter {:.100}, which is not a name of the model; save the "
            "optimizer's state with get_state_dict() of torch.distributed.checkpoint.state_dict, which names "
            "parameters",
            pytorch::Print(*item));
      }
    }
  }

  std::string NameInModel(std::string_view name) const {
    std::string plain = WithoutWrappers(name);
    if (names_.contains(plain)) return plain;
    if (plain.starts_with(kModulePrefix) && names_.contains(plain.substr(kModulePrefix.size()))) {
      return plain.substr(kModulePrefix.size());
    }
    return "";
  }

  // `param_groups.0.lr`
  void ReadNumbered(std::vector<ReadGroup>& groups) {
    std::map<std::int64_t, std::vector<Leaf>> leaves;
    for (const GroupEntry& entry : roles_.groups) {
      if (entry.group) leaves[*entry.group].push_back({entry.path, values_.at(entry.entry)});
    }
    for (auto& [number, of_group] : leaves) Split(Nest(std::move(of_group)), groups);
  }

  // `param_groups.layers.0.weight.lr`: in the order of the model.
  void ReadOfParameters(std::vector<ReadGroup>& groups) {
    std::unordered_map<std::string, std::vector<Leaf>> leaves;
    for (const GroupEntry& entry : roles_.groups) {
      if (!entry.parameter.empty()) leaves[entry.parameter].push_back({entry.path, values_.at(entry.entry)});
    }
    std::unordered_map<std::string, std::size_t> group_of_text;
    for (const ModelEntry& tensor : roles_.tensors) {
      const auto found = leaves.find(tensor.name);
      if (found == leaves.end()) continue;
      ValuePtr hyper_parameters = pytorch::MakeDict(Nest(std::move(found->second)));
      const auto [known, is_new] = group_of_text.try_emplace(pytorch::Print(*hyper_parameters), groups.size());
      if (is_new) groups.push_back({std::move(hyper_parameters), {}});
      groups[known->second].parameters.push_back(tensor.name);
    }
  }

  // A group that was not stepped as a whole becomes one for each step.
  void Add(const ReadGroup& read) {
    const std::size_t first = result_.groups.size();
    std::map<std::string, std::size_t> group_of_step;
    for (const std::string& name : read.parameters) {
      const bool is_known = !group_of_.insert(name).second;
      if (is_known && result_.unread.empty()) {
        result_.unread = fmt::format("the optimizer lists `{}` in two groups", name);
      }
      if (!trained_.contains(name) && !trained_.empty()) {
        result_.stateless.push_back(name);
        continue;
      }
      const auto step = step_of_.find(name);
      ValuePtr value = step == step_of_.end() ? nullptr : step->second;
      const auto [known, is_new] =
          group_of_step.try_emplace(value ? pytorch::Print(*value) : "", result_.groups.size());
      if (is_new) result_.groups.push_back({read.hyper_parameters, std::move(value), {}});
      result_.groups[known->second].parameters.push_back(name);
    }
    if (result_.groups.size() == first) result_.groups.push_back({read.hyper_parameters, nullptr, {}});
  }

  const Roles& roles_;
  const ValueOfEntry& values_;
  const std::set<std::string>& trained_;
  std::unordered_map<std::string, ValuePtr> step_of_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> group_of_;  // The parameters that are in one.
  Optimizer result_;
};

}  // namespace

Optimizer ReadOptimizer(const Roles& roles, const ValueOfEntry& values, const std::set<std::string>& trained) {
  return Reader(roles, values, trained).Run();
}

}  // namespace ucp::dcp
