#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {

using pytorch::AsText;
using pytorch::Entries;
using pytorch::ValuePtr;

namespace {

// In a dict of this name bitsandbytes saves its states, so that nobody takes them for tensors of a parameter's shape.
// It also loads them without it.
constexpr std::string_view kHidden = "__bnb_optimizer_quant_state__";

// States that an optimizer looks up or scales, and does not compute with.
bool IsCode(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return true;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128:
      return false;
  }
  return false;
}

}  // namespace

llvm::Error TorchOptimizerReader::Bad(const std::string& sentence) const {
  return Fail(ErrorCode::kBadData, "`{}`: {}", archive_.readable->path(), sentence);
}

llvm::Error TorchOptimizerReader::Unsupported(const std::string& found) const {
  return Fail(ErrorCode::kUnsupported, "`{}` {}, which this version does not read yet", archive_.readable->path(),
              found);
}

void SetAsideOthers(const std::vector<std::int64_t>& sizes, const std::string& path, const std::string& owner,
                    SteppedTensor& tensor) {
  auto set_aside = [&](auto is_other, auto why) {
    for (auto state = tensor.states.begin(); state != tensor.states.end();) {
      const TensorPlace place = state->second;
      if (!is_other(place)) {
        ++state;
        continue;
      }
      tensor.others.emplace(state->first,
                            OtherState{fmt::format("`{}` of {} in `{}` {}", state->first, owner, path, why(place)),
                                       pytorch::MakeWholeTensor("0", place.dtype, place.sizes),
                                       {place}});
      state = tensor.states.erase(state);
    }
  };
  set_aside([&](const TensorPlace& place) { return place.sizes != sizes; },
            [&](const TensorPlace& place) {
              return fmt::format("is a tensor of [{}], not of [{}]", fmt::join(place.sizes, ", "),
                                 fmt::join(sizes, ", "));
            });
  if (tensor.others.empty()) return;
  set_aside([](const TensorPlace& place) { return IsCode(place.dtype); },
            [](const TensorPlace& place) {
              return fmt::format("is of {} beside states that are not one number for each element, and so a code",
                                 Name(place.dtype));
            });
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
  if (name == kHidden) return ReadStates(value, owner, tensor);
  if (name == kMasterState || name == kWeightState) {
    return Unsupported(fmt::format("has an optimizer state with the name `{}`, in {}", name, owner));
  }
  if (const auto* state = value->As<pytorch::Tensor>()) {
    tensor.states.emplace(name, archives_.PlaceOf(archive_, *state));
  } else {
    UCP_ASSIGN_OR_RETURN(OtherState other, ReadOther(value, name));
    other.sentence = fmt::format("`{}` of {} in `{}` is not a tensor", name, owner, archive_.path);
    tensor.others.emplace(name, std::move(other));
  }
  return llvm::Error::success();
}

llvm::Expected<OtherState> TorchOptimizerReader::ReadOther(const ValuePtr& value, const std::string& name) const {
  OtherState other;
  ValuePtr found = pytorch::ReplaceTensors(value, [&](const ValuePtr& tensor) {
    other.tensors.push_back(archives_.PlaceOf(archive_, *tensor->As<pytorch::Tensor>()));
    const TensorPlace& place = other.tensors.back();
    return pytorch::MakeWholeTensor(fmt::to_string(other.tensors.size() - 1), place.dtype, place.sizes);
  });
  UCP_RETURN_IF_ERROR(archives_.CheckNoBareStorage(archive_, *found, fmt::format("its optimizer state `{}`", name)));
  other.value = std::move(found);
  return other;
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
    // A smaller state is not one number for each element: a table that several states are looked up in.
    std::int64_t most = tensor->master.elements;
    for (const auto& [state, place] : tensor->states) most = std::max(most, place.elements);
    for (const auto& [state, place] : tensor->states) {
      if (place.elements == most) add(owner, state, place);
    }
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
