#include "compiler/formats/megatron/write/optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_differences.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

constexpr std::string_view kOfExperts = "is_expert_parallel";

bool IsOfExperts(const OptimizerGroup& group) {
  const ValuePtr said = FindOfGroup(group, kOfExperts);
  return said && pytorch::AsBool(*said).value_or(false);
}

OptimizerGroup GroupWith(const OptimizerGroup& group, bool is_of_experts, std::vector<std::string> parameters) {
  std::vector<Entry> entries = *pytorch::Entries(*group.hyper_parameters);
  for (Entry& entry : entries) {
    const std::string_view key = pytorch::AsText(*entry.key).value_or("");
    if (key == kOfExperts || key == fmt::format("pre_{}", kOfExperts)) entry.value = pytorch::MakeBool(is_of_experts);
  }
  return {pytorch::MakeDict(std::move(entries)), group.step, std::move(parameters)};
}

Optimizers Apart(std::span<const OptimizerGroup> groups) {
  Optimizers optimizers(2);
  for (const OptimizerGroup& group : groups) {
    for (const bool of_experts : {false, true}) {
      std::vector<std::string> names;
      std::ranges::copy_if(group.parameters, std::back_inserter(names),
                           [&](const std::string& name) { return megatron::IsOfExperts(name) == of_experts; });
      const bool is_kept_empty = group.parameters.empty() && IsOfExperts(group) == of_experts;
      if (names.empty() && !is_kept_empty) continue;
      optimizers[of_experts ? 1 : 0].push_back(GroupWith(group, of_experts, std::move(names)));
    }
  }
  if (optimizers.back().empty()) optimizers.pop_back();
  return optimizers;
}

llvm::Error Join(OptimizerGroup group, std::vector<OptimizerGroup>& groups) {
  const auto same = std::ranges::find_if(groups, [&](const OptimizerGroup& other) { return HaveOneKey(group, other); });
  if (same == groups.end()) {
    groups.push_back(std::move(group));
    return llvm::Error::success();
  }
  const auto differences =
      pytorch::DifferencesOf(same->hyper_parameters, group.hyper_parameters, pytorch::ListLengths::kMustAgree, 1);
  if (!differences.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "`{}` is {} in a group of the optimizer and {} in the group of experts that would be one with it; "
                "`ep=2` or more keeps them apart",
                differences.front().keys, differences.front().a, differences.front().b);
  }
  std::ranges::move(group.parameters, std::back_inserter(same->parameters));
  return llvm::Error::success();
}

}  // namespace

llvm::Error CheckExpertsShareOut(std::span<const LogicalTensor> tensors, std::int64_t expert_parallel) {
  std::map<std::string, std::int64_t> experts;  // By key.
  for (const LogicalTensor& tensor : tensors) {
    const std::size_t dims = StackedDimensions(tensor.name);
    if (const auto single = ExpertIn(tensor.name)) {
      ++experts[single->key];
    } else if (megatron::IsOfExperts(tensor.name) && dims > 0 && tensor.shape.size() >= dims) {
      experts[tensor.name] = tensor.shape[dims - 1];
    }
  }
  for (const auto& [key, count] : experts) {
    if (count % expert_parallel == 0) continue;
    return Fail(ErrorCode::kUsage, "`{}` has {} experts, which `ep={}` does not share out evenly", key, count,
                expert_parallel);
  }
  if (!experts.empty() || expert_parallel == 1) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the model has no experts to share out, and `ep={}` says among how many ranks",
              expert_parallel);
}

llvm::Expected<Optimizers> OptimizersOf(std::span<const OptimizerGroup> groups,
                                        std::optional<std::int64_t> expert_parallel) {
  const auto of_experts = [](const OptimizerGroup& group) { return IsOfExperts(group); };
  const bool are_apart = expert_parallel ? *expert_parallel > 1 : std::ranges::any_of(groups, of_experts);
  if (are_apart) return Apart(groups);
  std::vector<OptimizerGroup> joined;
  std::ranges::copy_if(groups, std::back_inserter(joined), std::not_fn(of_experts));
  for (const OptimizerGroup& group : groups) {
    if (of_experts(group)) UCP_RETURN_IF_ERROR(Join(GroupWith(group, false, group.parameters), joined));
  }
  return Optimizers{std::move(joined)};
}

}  // namespace ucp::megatron
