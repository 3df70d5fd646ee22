// Biases and vectors have a group without weight decay, whose `wd_mult` is 0. Experts that other ranks have copies of
// than of the rest have groups of their own, and so may the embedding and the head.
#include "compiler/formats/megatron/rules/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::megatron {
namespace {

using pytorch::ValuePtr;

struct Traits {
  bool decays = true;
  bool is_of_experts = false;
  bool has_own_rate = false;
};

bool IsSet(const pytorch::Value& group, std::string_view name) {
  const ValuePtr value = pytorch::Find(group, name);
  return value && pytorch::AsBool(*value).value_or(false);
}

Traits TraitsOf(const pytorch::Value& group) {
  const ValuePtr decay = pytorch::Find(group, "wd_mult");
  const auto number = decay ? pytorch::AsDouble(*decay) : std::nullopt;
  return {!number || *number != 0, IsSet(group, "is_expert_parallel"), IsSet(group, "is_decoupled_lr")};
}

Traits TraitsOf(const Parameter& parameter) {
  const std::string_view name = parameter.name;
  const std::size_t own = parameter.dimensions - std::min(parameter.dimensions, StackedDimensions(name));
  const bool has_own_rate = name == kWordEmbeddings || name == kHead;
  return {own != 1 && !name.ends_with(".bias"), IsOfExperts(name), has_own_rate};
}

// The torch optimizers count steps in floats, of which Megatron Core saves the number alone.
ValuePtr StepOf(const ValuePtr& step) {
  constexpr double kMostSteps = 9007199254740992;  // 2^53: every whole number up to it is a double.
  const auto number = step ? pytorch::AsDouble(*step) : std::nullopt;
  if (!number || pytorch::AsInteger(*step)) return step;
  const bool is_whole = *number >= 0 && *number <= kMostSteps && std::floor(*number) == *number;
  return is_whole ? pytorch::MakeInteger(static_cast<std::int64_t>(*number)) : step;
}

OptimizerGroup Read(const pytorch::Value& group, const ValuePtr& common_step) {
  std::vector<pytorch::Entry> hyper_parameters;
  ValuePtr step = common_step;
  const auto* entries = pytorch::Entries(group);
  for (const pytorch::Entry& entry : entries == nullptr ? std::vector<pytorch::Entry>() : *entries) {
    const auto key = pytorch::AsText(*entry.key);
    if (key == "step") step = entry.value;
    if (key != "step" && key != "params") hyper_parameters.push_back(entry);
  }
  return {pytorch::MakeDict(std::move(hyper_parameters)), StepOf(step), {}};
}

// The numbers of those among `groups` that have `trait` as the parameter has it; all of them if none has.
void Keep(std::vector<std::size_t>& numbers, const std::vector<Traits>& groups, bool Traits::* trait, bool wanted) {
  std::vector<std::size_t> kept;
  for (const std::size_t number : numbers) {
    if (groups[number].*trait == wanted) kept.push_back(number);
  }
  if (!kept.empty()) numbers = std::move(kept);
}

}  // namespace

Groups DealIntoGroups(const Common& common, llvm::ArrayRef<Parameter> parameters) {
  Groups result;
  std::vector<Traits> traits;
  for (const ValuePtr& group : common.groups) {
    result.groups.push_back(Read(*group, common.common_step));
    traits.push_back(TraitsOf(*group));
  }
  for (const Parameter& parameter : parameters) {
    const Traits wanted = TraitsOf(parameter);
    std::vector<std::size_t> numbers(traits.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    Keep(numbers, traits, &Traits::is_of_experts, wanted.is_of_experts);
    Keep(numbers, traits, &Traits::has_own_rate, wanted.has_own_rate);
    Keep(numbers, traits, &Traits::decays, wanted.decays);
    if (numbers.size() != 1) {
      result.unread = fmt::format(
          "the optimizer has {} groups of parameters, and {} of them may have `{}`: Megatron Core does not save which",
          traits.size(), numbers.size(), parameter.name);
      return result;
    }
    result.groups[numbers.front()].parameters.push_back(parameter.name);
  }
  return result;
}

ValuePtr FindOfGroup(const OptimizerGroup& group, std::string_view key) {
  const ValuePtr found = pytorch::Find(*group.hyper_parameters, key);
  return found ? found : pytorch::Find(*group.hyper_parameters, fmt::format("pre_{}", key));
}

bool HaveOneKey(const OptimizerGroup& a, const OptimizerGroup& b) {
  return std::ranges::all_of(kOfGroups, [&](std::string_view key) {
    const ValuePtr of_a = FindOfGroup(a, key);
    const ValuePtr of_b = FindOfGroup(b, key);
    return of_a && of_b ? pytorch::Print(*of_a) == pytorch::Print(*of_b) : of_a == of_b;
  });
}

}  // namespace ucp::megatron
