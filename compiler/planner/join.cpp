#include "compiler/planner/join.h"

#include <fmt/format.h>
#include <llvm/ADT/STLExtras.h>

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

// What the shards of one tensor say together: the trained states if there are any, and else the weight.
struct Gathered {
  TensorKind kind = TensorKind::kParameter;
  const Shard* trained = nullptr;
  const Shard* weight = nullptr;
};

llvm::Error Compare(const Storage& storage, const std::string& name, const Shard& first, const Shard& other,
                    bool weight) {
  std::vector<LogicalTensor::State> a = StatesOf(storage, first, weight);
  std::vector<LogicalTensor::State> b = StatesOf(storage, other, weight);
  if (a == b) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "tensor `{}` has the states {} in `{}` and {} in `{}`", name, StatesText(a),
              FileOf(storage, first), StatesText(b), FileOf(storage, other));
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
    const Shard*& first = weight ? gathered.weight : gathered.trained;
    if (first == nullptr) {
      first = &shard;
    } else {
      UCP_RETURN_IF_ERROR(Compare(storage, shard.tensor, *first, shard, weight));
    }
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
  for (std::size_t t = 0; t < found.size(); ++t) {
    if (!found[t]) continue;
    const TensorLayout& tensor = layout.tensors[t];
    const Gathered& gathered = *found[t];
    const Shard* shard = gathered.trained != nullptr ? gathered.trained : gathered.weight;
    LogicalTensor logical;
    logical.name = tensor.name;
    logical.kind = gathered.kind;
    UCP_ASSIGN_OR_RETURN(logical.shape, LogicalShape(tensor));
    logical.dims = tensor.dims;
    logical.states = StatesOf(storage, *shard, gathered.trained == nullptr);
    if (gathered.weight != nullptr) logical.weight = StatesOf(storage, *gathered.weight, true).front().dtype;
    tensors.push_back(std::move(logical));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const LogicalTensor& a, const LogicalTensor& b) { return a.name < b.name; });
  return tensors;
}

}  // namespace ucp
