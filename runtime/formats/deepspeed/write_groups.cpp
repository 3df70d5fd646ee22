#include "runtime/formats/deepspeed/write_groups.h"

#include <re2/re2.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// Where a PipelineModule registers a parameter: tied modules before all layers.
std::optional<std::int64_t> PlaceInPipeline(const std::string& name) {
  static const RE2 numbered(R"((\d{1,9})\..*)");
  std::int64_t layer = 0;
  if (name.starts_with("tied_modules.")) return -1;
  if (RE2::FullMatch(name, numbered, &layer)) return layer;
  return std::nullopt;
}

llvm::Error OrderAsPipeline(std::size_t index, std::vector<std::string>& names) {
  std::int64_t last = -1;
  const std::string* last_name = nullptr;
  for (const std::string& name : names) {
    std::optional<std::int64_t> place = PlaceInPipeline(name);
    if (!place) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is no name of a pipeline's parameter, so where its optimizer has it is not known", name);
    }
    if (*place < 0) continue;
    if (*place < last) {
      return Fail(ErrorCode::kUnsupported,
                  "group {} of the source's optimizer has `{}` after `{}`: its order is not that of the layers, so it "
                  "is not known for other stages; convert to `universal` instead",
                  index, name, *last_name);
    }
    last = *place;
    last_name = &name;
  }
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return *PlaceInPipeline(name) < 0; });
  return llvm::Error::success();
}

std::string StatesText(const LogicalTensor& tensor) {
  std::string text;
  for (const LogicalTensor::State& state : tensor.states) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", state.name, Name(state.dtype));
  }
  return text;
}

}  // namespace

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
  for (std::size_t g = 0; g < request_.training.groups.size(); ++g) {
    std::vector<std::string> names = request_.training.groups[g].parameters;
    if (request_.training.pipeline) UCP_RETURN_IF_ERROR(OrderAsPipeline(g, names));
    std::vector<Ordered> group;
    for (const std::string& name : names) {
      UCP_ASSIGN_OR_RETURN(Ordered found, Find(name));
      group.push_back(std::move(found));
    }
    UCP_RETURN_IF_ERROR(CheckSameStates(group));
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
  std::vector<FlatGroupToWrite> flat_groups;
  const std::int64_t alignment = options_.alignment ? 16 / ItemBytes(options_.dtype) : 1;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<Ordered> held;
    std::copy_if(groups_[g].begin(), groups_[g].end(), std::back_inserter(held), [&](const Ordered& parameter) {
      return IsHeldAt(*parameter.layout, coordinate) && experts_.IsHeldAt(parameter.tensor->name, coordinate.At("ep"));
    });
    if (held.empty()) continue;
    FlatGroupToWrite flat;
    flat.group = g;
    flat.of_experts = experts_.IsExpert(held.front().tensor->name);
    flat.ranks = flat.of_experts ? experts_.RanksOf(coordinate.At("ep")) : AllRanks();
    const auto partitions = static_cast<std::int64_t>(flat.ranks.size());
    if (options_.round_robin) held = DealRoundRobin(held, partitions);
    for (std::size_t i = 0; i < held.size(); ++i) {
      UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(*held[i].layout, request_.layout.mesh, coordinate));
      PlacedParameter placed{
          experts_.LocalName(held[i].name), held[i].tensor, set.LocalShape(), flat.elements, set.local_elements(), 0};
      if (i + 1 < held.size()) placed.padding = (alignment - placed.elements % alignment) % alignment;
      std::optional<std::int64_t> end = CheckedAdd(flat.elements, placed.elements + placed.padding);
      // Padding and the largest item come on top.
      if (!end || *end > (std::int64_t{1} << 58)) {
        return Fail(ErrorCode::kBadData, "the parameters of group {} up to `{}` have more than 2^58 elements", g,
                    placed.name);
      }
      flat.elements = *end;
      flat.parameters.push_back(std::move(placed));
    }
    flat.partition_elements = 2 * CeilDivide(flat.elements, 2 * partitions);
    flat_groups.push_back(std::move(flat));
  }
  return flat_groups;
}

}  // namespace ucp::deepspeed
