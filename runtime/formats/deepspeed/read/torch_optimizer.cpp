#include "runtime/formats/deepspeed/read/torch_optimizer.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {

using pytorch::AsText;
using pytorch::Entries;
using pytorch::ValuePtr;

llvm::Error TorchOptimizerReader::Bad(const std::string& sentence) const {
  return Fail(ErrorCode::kBadData, "`{}`: {}", archive_.readable->path(), sentence);
}

llvm::Error TorchOptimizerReader::Unsupported(const std::string& found) const {
  return Fail(ErrorCode::kUnsupported, "`{}` {}, which this version does not read yet", archive_.readable->path(),
              found);
}

void SetAsideOthers(const std::vector<std::int64_t>& sizes, const std::string& path, const std::string& owner,
                    SteppedTensor& tensor) {
  for (auto state = tensor.states.begin(); state != tensor.states.end();) {
    if (state->second.sizes == sizes) {
      ++state;
      continue;
    }
    tensor.others.emplace(state->first,
                          fmt::format("`{}` of {} in `{}` is a tensor of [{}], not of [{}]", state->first, owner, path,
                                      fmt::join(state->second.sizes, ", "), fmt::join(sizes, ", ")));
    state = tensor.states.erase(state);
  }
}

llvm::Expected<TensorPlace> TorchOptimizerReader::PlaceOf(const ValuePtr& value, const std::string& state,
                                                          const std::string& owner) const {
  const auto* tensor = value->As<pytorch::Tensor>();
  if (tensor == nullptr) return Bad(fmt::format("`{}` of {} is not a tensor", state, owner));
  return archives_.PlaceOf(archive_, *tensor);
}

llvm::Expected<TensorPlace> TorchOptimizerReader::VectorPlace(const ValuePtr& value, const std::string& state,
                                                              const std::string& owner) const {
  UCP_ASSIGN_OR_RETURN(TensorPlace place, PlaceOf(value, state, owner));
  if (place.sizes.size() != 1 || !place.strides.empty()) {
    return Bad(fmt::format("`{}` of {} is not a contiguous vector", state, owner));
  }
  return place;
}

llvm::Expected<std::vector<std::int64_t>> TorchOptimizerReader::NumbersOf(const pytorch::Value& group,
                                                                          std::size_t index) const {
  pytorch::ValuePtr params = pytorch::Entries(group) != nullptr ? pytorch::Find(group, "params") : nullptr;
  auto numbers = params ? pytorch::AsIntegers(*params) : std::nullopt;
  if (!numbers) return Bad(fmt::format("`param_groups` {} has no list `params` of numbers", index));
  return std::move(*numbers);
}

llvm::Error TorchOptimizerReader::ReadStates(const ValuePtr& states, const std::string& owner,
                                             SteppedTensor& tensor) const {
  if (!states) return llvm::Error::success();
  const auto* entries = Entries(*states);
  if (entries == nullptr) return Bad(fmt::format("the optimizer state of {} is not a dict", owner));
  for (const pytorch::Entry& entry : *entries) {
    auto key = AsText(*entry.key);
    if (!key) return Bad(fmt::format("the optimizer state of {} has a key that is not a string", owner));
    UCP_RETURN_IF_ERROR(ReadState(std::string(*key), entry.value, owner, tensor));
  }
  return llvm::Error::success();
}

llvm::Error TorchOptimizerReader::ReadState(const std::string& name, const ValuePtr& value, const std::string& owner,
                                            SteppedTensor& tensor) const {
  if (name == "step") {
    tensor.step = value;
    return llvm::Error::success();
  }
  if (value->is_none()) return llvm::Error::success();  // torch.optim.SGD without momentum.
  if (name == kMasterState || name == kWeightState) {
    return Unsupported(fmt::format("has an optimizer state with the name `{}`, in {}", name, owner));
  }
  if (const auto* state = value->As<pytorch::Tensor>()) {
    tensor.states.emplace(name, archives_.PlaceOf(archive_, *state));
  } else {
    tensor.others.emplace(name, fmt::format("`{}` of {} in `{}` is no tensor", name, owner, archive_.path));
  }
  return llvm::Error::success();
}

llvm::Error TorchOptimizerReader::CheckDistinctMemory(const std::vector<Owned>& tensors) const {
  struct Span {
    RecordId record;
    std::int64_t begin = 0;  // In bytes.
    std::int64_t end = 0;
    std::string name;
  };
  std::vector<Span> spans;
  auto add = [&](const std::string& owner, const std::string& state, const TensorPlace& place) {
    if (place.elements == 0) return;
    const std::int64_t item = ItemBytes(place.dtype);
    spans.push_back({place.record, place.offset * item, (place.offset + place.elements) * item,
                     fmt::format("`{}` of {}", state, owner)});
  };
  for (const auto& [owner, tensor] : tensors) {
    add(owner, kMasterState, tensor->master);
    for (const auto& [state, place] : tensor->states) add(owner, state, place);
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return std::tie(a.record, a.begin) < std::tie(b.record, b.begin); });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    const Span& a = spans[i - 1];
    const Span& b = spans[i];
    if (a.record != b.record || b.begin >= a.end) continue;
    return Bad(fmt::format("{} and {} are the same memory, and an optimizer's states never are", a.name, b.name));
  }
  return llvm::Error::success();
}

llvm::Error TorchOptimizerReader::Keep(const std::vector<ValuePtr*>& values,
                                       std::vector<pytorch::Entry>& entries) const {
  std::vector<ValuePtr> present;
  for (const ValuePtr* value : values) present.push_back(*value ? *value : pytorch::MakeNone());
  ValuePtr all = pytorch::MakeTuple({pytorch::MakeTuple(std::move(present)), pytorch::MakeDict(std::move(entries))});
  UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives_.Keep(archive_, all, "its optimizer state"));
  const auto& parts = *pytorch::Items(*kept);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (*values[i]) *values[i] = (*pytorch::Items(*parts[0]))[i];
  }
  entries = *Entries(*parts[1]);
  return llvm::Error::success();
}

ValuePtr WithoutParams(const pytorch::Value& group) {
  constexpr std::array<std::string_view, 1> kParams = {"params"};
  return pytorch::MakeDict(EntriesWithout(group, kParams));
}

std::vector<pytorch::Entry> EntriesWithout(const pytorch::Value& dict, std::span<const std::string_view> keys) {
  std::vector<pytorch::Entry> others;
  for (const pytorch::Entry& entry : *Entries(dict)) {
    auto key = AsText(*entry.key);
    if (!key || std::find(keys.begin(), keys.end(), *key) == keys.end()) others.push_back(entry);
  }
  return others;
}

}  // namespace ucp::deepspeed
