#include "compiler/planner/join.h"

#include <fmt/format.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "compiler/layout/layout_index.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

std::string StatesText(const std::vector<LogicalTensor::State>& states) {
  std::string text;
  for (const LogicalTensor::State& state : states) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", state.name, Name(state.dtype));
  }
  return text;
}

// The states of one shard without the weight, or the weight alone.
std::vector<LogicalTensor::State> StatesOf(const Storage& storage, const Shard& shard, bool weight) {
  std::vector<LogicalTensor::State> states;
  for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
    if ((entry.state == kWeightState) == weight) states.push_back({entry.state, storage.buffer(entry.buffer).dtype});
  }
  return states;
}

// Whether StatesOf() would be some.
bool HasStates(const Storage& storage, const Shard& shard, bool weight) {
  return llvm::any_of(storage.buffer_set(shard.states),
                      [&](const StateBuffer& entry) { return (entry.state == kWeightState) == weight; });
}

std::string FileOf(const Storage& storage, const Shard& shard) {
  const BufferSet& set = storage.buffer_set(shard.states);
  return set.empty() ? "" : storage.file(storage.buffer(set.front().buffer).parts.front().record).path;
}

// The states of one tensor over all its shards: the trained states if there are any, and else the weight.
struct Gathered {
  TensorKind kind = TensorKind::kParameter;
  llvm::SmallVector<const Shard*, 1> trained;  // The first of those with the same states.
  llvm::SmallVector<const Shard*, 1> weight;
};

bool HaveOneInCommon(const std::vector<LogicalTensor::State>& a, const std::vector<LogicalTensor::State>& b) {
  return llvm::any_of(a, [&](const LogicalTensor::State& state) {
    return llvm::any_of(b, [&](const LogicalTensor::State& other) { return state.name == other.name; });
  });
}

// The states are those of some shard before, or none of them is.
llvm::Error AddStates(const Storage& storage, const Shard& shard, bool weight,
                      llvm::SmallVectorImpl<const Shard*>& firsts) {
  // Ranks often have the same buffers, in which the states are the same.
  if (llvm::any_of(firsts, [&](const Shard* first) { return first->states == shard.states; })) {
    return llvm::Error::success();
  }
  const std::vector<LogicalTensor::State> states =
      firsts.empty() ? std::vector<LogicalTensor::State>() : StatesOf(storage, shard, weight);
  for (const Shard* first : firsts) {
    const std::vector<LogicalTensor::State> before = StatesOf(storage, *first, weight);
    if (states == before) return llvm::Error::success();
    if (!HaveOneInCommon(before, states)) continue;
    return Fail(ErrorCode::kBadData, "tensor `{}` has the states {} in `{}` and {} in `{}`", shard.tensor,
                StatesText(before), FileOf(storage, *first), StatesText(states), FileOf(storage, shard));
  }
  firsts.push_back(&shard);
  return llvm::Error::success();
}

// Sorted by name.
std::vector<LogicalTensor::State> AllStates(const Storage& storage, llvm::ArrayRef<const Shard*> firsts, bool weight) {
  if (firsts.size() == 1) return StatesOf(storage, *firsts.front(), weight);  // As nearly always; they are sorted.
  std::vector<LogicalTensor::State> all;
  for (const Shard* shard : firsts) {
    for (LogicalTensor::State& state : StatesOf(storage, *shard, weight)) all.push_back(std::move(state));
  }
  llvm::sort(all, [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

llvm::Error Gather(const Storage& storage, const Shard& shard, Gathered& gathered, bool is_new) {
  if (storage.buffer_set(shard.states).empty()) {
    return Fail(ErrorCode::kBadData, "tensor `{}` at {} has no states at all", shard.tensor,
                ToString(shard.coordinate));
  }
  if (is_new) gathered.kind = shard.kind;
  if (!is_new && shard.kind == TensorKind::kParameter) gathered.kind = shard.kind;
  for (bool weight : {false, true}) {
    if (!HasStates(storage, shard, weight)) continue;
    UCP_RETURN_IF_ERROR(AddStates(storage, shard, weight, weight ? gathered.weight : gathered.trained));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<LogicalTensor>> JoinTensors(const Layout& layout, const Inventory& inventory) {
  const Storage& storage = inventory.storage;
  const LayoutIndex index(layout);
  const std::unordered_set<std::string_view> dropped(layout.dropped.begin(), layout.dropped.end());
  std::vector<std::optional<Gathered>> found(layout.tensors.size());  // As the layout's tensors.
  for (const Shard& shard : storage.shards) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (dropped.contains(shard.tensor)) continue;
    const TensorLayout* tensor = index.Find(shard.tensor);
    if (tensor == nullptr) {
      return Fail(ErrorCode::kBadData, "tensor `{}` of `{}` is not in the layout", shard.tensor,
                  FileOf(storage, shard));
    }
    std::optional<Gathered>& gathered = found[static_cast<std::size_t>(tensor - layout.tensors.data())];
    const bool is_new = !gathered.has_value();
    if (is_new) gathered.emplace();
    UCP_RETURN_IF_ERROR(Gather(storage, shard, *gathered, is_new));
  }
  std::vector<LogicalTensor> tensors;
  tensors.reserve(found.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    if (!found[t]) continue;
    const TensorLayout& tensor = layout.tensors[t];
    const Gathered& gathered = *found[t];
    LogicalTensor& logical = tensors.emplace_back();
    logical.name = tensor.name;
    logical.kind = gathered.kind;
    UCP_ASSIGN_OR_RETURN(logical.shape, LogicalShape(tensor));
    logical.dims = tensor.dims;
    const bool is_weight = gathered.trained.empty();
    logical.states = AllStates(storage, is_weight ? gathered.weight : gathered.trained, is_weight);
    if (!gathered.weight.empty()) logical.weight = StatesOf(storage, *gathered.weight.front(), true).front().dtype;
  }
  const auto by_name = [](const LogicalTensor& a, const LogicalTensor& b) { return a.name < b.name; };
  if (!std::is_sorted(tensors.begin(), tensors.end(), by_name)) std::sort(tensors.begin(), tensors.end(), by_name);
  return tensors;
}

}  // namespace ucp
