#include "compiler/formats/deepspeed/native/write/groups.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/round_robin.h"
#include "compiler/formats/deepspeed/native/write/pipeline_order.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

std::string StatesText(const LogicalTensor& tensor) {
  std::string text;
  for (const LogicalTensor::State& state : tensor.states) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", state.name, Name(state.dtype));
  }
  return text;
}

}  // namespace

Shard ShardOf(const PlacedParameter& parameter, const Coordinate& coordinate, std::int64_t base, BufferSetId states) {
  Shard shard;
  shard.tensor = parameter.tensor->name;
  shard.coordinate = coordinate;
  shard.shape = parameter.shape;
  shard.base = base;
  shard.states = states;
  return shard;
}

llvm::Expected<GroupsToWrite::Ordered> GroupsToWrite::Find(const std::string& name) const {
  Ordered found{name, nullptr, request_.layout.Find(name)};
  if (found.layout != nullptr) {
    auto tensor = std::lower_bound(request_.tensors.begin(), request_.tensors.end(), found.layout->name,
                                   [](const LogicalTensor& a, const std::string& b) { return a.name < b; });
    if (tensor != request_.tensors.end() && tensor->name == found.layout->name) found.tensor = &*tensor;
  }
  if (found.tensor != nullptr && found.tensor->kind == TensorKind::kParameter) return found;
  return Fail(ErrorCode::kUnsupported,
              "the source's optimizer has the parameter `{}`, and the layout of the target has none of this name",
              name);
}

llvm::Error GroupsToWrite::Order() {
  if (!request_.training.order_doubt.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "the order of the optimizer's parameters is not known: {}; convert to `universal` instead",
                request_.training.order_doubt);
  }
  std::vector<std::vector<std::string>> ordered;
  for (const OptimizerGroup& group : request_.training.groups) ordered.push_back(group.parameters);
  if (StateOf(request_.training).pipeline) {
    UCP_ASSIGN_OR_RETURN(ordered, OrderOfPipeline(request_.training, request_.layout, options_.pp));
  }
  for (const std::vector<std::string>& names : ordered) {
    std::vector<Ordered> group;
    for (const std::string& name : names) {
      UCP_ASSIGN_OR_RETURN(Ordered found, Find(name));
      group.push_back(std::move(found));
    }
    // Without ZeRO a parameter can have states of its own.
    if (options_.stage > 0 || options_.wrapper == WholeWrapper::kFused) UCP_RETURN_IF_ERROR(CheckSameStates(group));
    groups_.push_back(std::move(group));
  }
  return CheckEveryParameter();
}

llvm::Error GroupsToWrite::CheckSameStates(const std::vector<Ordered>& group) const {
  for (const Ordered& other : group) {
    if (other.tensor->states == group.front().tensor->states) continue;
    return Fail(ErrorCode::kBadData, "`{}` has the states {}, and `{}` of the same optimizer group {}",
                group.front().name, StatesText(*group.front().tensor), other.name, StatesText(*other.tensor));
  }
  return llvm::Error::success();
}

llvm::Error GroupsToWrite::CheckEveryParameter() const {
  std::unordered_map<const LogicalTensor*, const std::string*> name_of;
  for (const auto& group : groups_) {
    for (const Ordered& parameter : group) {
      auto [entry, added] = name_of.emplace(parameter.tensor, &parameter.name);
      if (added) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`{}` and `{}` are one tensor, and the source's optimizer has both; which of them a rank of the "
                  "target has is not known",
                  *entry->second, parameter.name);
    }
  }
  for (const LogicalTensor& tensor : request_.tensors) {
    if (tensor.kind != TensorKind::kParameter || name_of.contains(&tensor)) continue;
    return Fail(ErrorCode::kBadData, "the parameter `{}` is in none of the optimizer's {} groups", tensor.name,
                groups_.size());
  }
  return llvm::Error::success();
}

std::vector<std::int64_t> GroupsToWrite::AllRanks() const {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(options_.dp));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

llvm::Expected<std::vector<FlatGroupToWrite>> GroupsToWrite::OfRank(const Coordinate& coordinate) const {
  std::vector<FlatGroupToWrite> all;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    UCP_ASSIGN_OR_RETURN(FlatGroupToWrite group, HeldOf(g, coordinate));
    if (group.parameters.empty()) continue;
    if (options_.stage == 3) {
      for (FlatGroupToWrite& sub_group : CutIntoSubGroups(std::move(group))) all.push_back(std::move(sub_group));
    } else {
      Flatten(group);
      all.push_back(std::move(group));
    }
  }
  return all;
}

llvm::Expected<FlatGroupToWrite> GroupsToWrite::HeldOf(std::size_t g, const Coordinate& coordinate) const {
  FlatGroupToWrite group;
  group.group = g;
  const std::int64_t expert_rank = coordinate.At("ep");
  std::int64_t elements = 0;
  for (const Ordered& parameter : groups_[g]) {
    const std::string& name = parameter.tensor->name;
    if (!IsHeldAt(*parameter.layout, coordinate) || !experts_.IsHeldAt(name, expert_rank)) continue;
    group.of_experts = experts_.IsExpert(name);
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(*parameter.layout, request_.layout.mesh, coordinate));
    const bool is_told = !request_.training.loose_states.empty();
    group.parameters.push_back({experts_.LocalName(parameter.name), parameter.tensor, set.LocalShape(), 0,
                                set.local_elements(), 0, is_told ? ToString(set) : ""});
    std::optional<std::int64_t> end = CheckedAdd(elements, set.local_elements());
    // Padding and the largest item come on top.
    if (!end || *end > (std::int64_t{1} << 57)) {
      return Fail(ErrorCode::kBadData, "the parameters of group {} up to `{}` have more than 2^57 elements", g,
                  parameter.name);
    }
    elements = *end;
  }
  group.ranks = group.of_experts ? experts_.RanksOf(expert_rank) : AllRanks();
  return group;
}

void GroupsToWrite::Flatten(FlatGroupToWrite& group) const {
  const auto partitions = static_cast<std::int64_t>(group.ranks.size());
  if (options_.round_robin) group.parameters = DealRoundRobin(group.parameters, partitions);
  const std::int64_t alignment = options_.alignment ? 16 / ItemBytes(options_.dtype) : 1;
  for (PlacedParameter& parameter : group.parameters) {
    const bool is_last = &parameter == &group.parameters.back();
    parameter.offset = group.elements;
    if (!is_last) parameter.padding = (alignment - parameter.elements % alignment) % alignment;
    group.elements += parameter.elements + parameter.padding;
  }
  group.partition_elements = options_.stage == 0 ? group.elements : 2 * CeilDivide(group.elements, 2 * partitions);
}

std::vector<FlatGroupToWrite> GroupsToWrite::CutIntoSubGroups(FlatGroupToWrite group) const {
  std::vector<FlatGroupToWrite> sub_groups;
  for (PlacedParameter& parameter : group.parameters) {
    // The parameter that fills a sub-group is its last one. (So a group that is not larger is also one.)
    if (sub_groups.empty() || sub_groups.back().partition_elements >= options_.sub_group_size) {
      sub_groups.push_back({group.group, {}, group.ranks, 0, 0, group.of_experts, {}});
    }
    FlatGroupToWrite& last = sub_groups.back();
    parameter.offset = last.partition_elements;
    last.elements += parameter.elements;
    last.partition_elements += CeilDivide(parameter.elements, std::ssize(last.ranks));
    last.parameters.push_back(std::move(parameter));
  }
  return sub_groups;
}

}  // namespace ucp::deepspeed
