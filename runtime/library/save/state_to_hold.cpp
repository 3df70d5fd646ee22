#include "runtime/library/save/state_to_hold.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "compiler/layout/dtype.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "runtime/job_state/plain_values.h"

namespace ucp {
namespace {

// Sizes beyond all memory are all alike.
std::int64_t Times(std::int64_t a, std::int64_t b) {
  return CheckedMultiply(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}
std::int64_t Plus(std::int64_t a, std::int64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

std::string KeyOf(const StatePath& path) {
  std::string key;
  for (const auto& part : path) {
    if (!key.empty()) key += '.';
    std::visit([&](const auto& one) { key += fmt::format("{}", one); }, part);
  }
  return key;
}

// The spans that are held in a dimension, and where each begins in the local tensor.
struct HeldDim {
  std::vector<HeldSpan> spans;
  std::vector<std::int64_t> at;
  std::int64_t size = 0;  // Of the local tensor.
};

llvm::Expected<HeldDim> DimOf(const std::string& key, std::vector<HeldSpan> spans, std::int64_t length) {
  HeldDim dim;
  std::int64_t end = 0;
  for (const HeldSpan& span : spans) {
    if (span.begin < end || span.end < span.begin || span.end > length) {
      return Fail(ErrorCode::kUsage,
                  "`{}` holds the positions {}..{} of a dimension of length {}; they must lie in it, and increase", key,
                  span.begin, span.end, length);
    }
    end = span.end;
    dim.at.push_back(dim.size);
    dim.size += span.end - span.begin;
  }
  dim.spans = std::move(spans);
  return dim;
}

llvm::Expected<std::vector<HeldDim>> DimsOf(const std::string& key, const TensorToSave& tensor) {
  const std::size_t count = tensor.shape.size();
  if (!tensor.holds.empty() && tensor.holds.size() != count) {
    return Fail(ErrorCode::kUsage, "`{}` has {} dimensions, and `holds` has {}", key, count, tensor.holds.size());
  }
  if (!tensor.strides.empty() && tensor.strides.size() != count) {
    return Fail(ErrorCode::kUsage, "`{}` has {} dimensions, and `strides` has {}", key, count, tensor.strides.size());
  }
  std::vector<HeldDim> dims;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = tensor.shape[i];
    if (length < 0) return Fail(ErrorCode::kUsage, "`{}` has a dimension of length {}", key, length);
    UCP_ASSIGN_OR_RETURN(
        dims.emplace_back(),
        DimOf(key, tensor.holds.empty() ? std::vector<HeldSpan>{{0, length}} : tensor.holds[i], length));
  }
  return dims;
}

// Row-major, if no others are given.
std::vector<std::int64_t> StridesOf(const TensorToSave& tensor, const std::vector<HeldDim>& dims) {
  if (!tensor.strides.empty()) return tensor.strides;
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = Times(strides[i], dims[i].size);
  return strides;
}

// The memory must be what the local tensor takes: exactly, since another size is a mistake about what is held.
llvm::Error CheckMemory(const std::string& key, const TensorToSave& tensor, const std::vector<HeldDim>& dims,
                        const std::vector<std::int64_t>& strides, std::int64_t item_bytes) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (strides[i] < 0) return Fail(ErrorCode::kUsage, "`{}` has the stride {}; they are 0 or more", key, strides[i]);
    if (dims[i].size == 0) elements = 0;
    if (elements > 0) elements = Plus(elements, Times(dims[i].size - 1, strides[i]));
  }
  const auto bytes = static_cast<std::uint64_t>(Times(elements, item_bytes));
  if (tensor.memory.size() == bytes) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "what is held of `{}` takes {} bytes, and its memory has {}", key, bytes,
              tensor.memory.size());
}

// Each choice of one span in each dimension is a box.
void AddBoxes(const TensorToSave& tensor, const std::vector<HeldDim>& dims, const std::vector<std::int64_t>& strides,
              std::int64_t item_bytes, HeldEntry& entry, std::vector<BoxMemory>& memories) {
  for (const HeldDim& dim : dims) {
    if (dim.spans.empty()) return;
  }
  std::vector<std::size_t> chosen(dims.size(), 0);
  while (true) {
    HeldBox box;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const HeldSpan& span = dims[i].spans[chosen[i]];
      box.offsets.push_back(span.begin);
      box.sizes.push_back(span.end - span.begin);
      first += dims[i].at[chosen[i]] * strides[i];
    }
    memories.push_back(
        {tensor.memory.data() + first * item_bytes, item_bytes, {box.sizes.begin(), box.sizes.end()}, strides});
    entry.boxes.push_back(std::move(box));
    std::size_t i = dims.size();
    while (i > 0 && ++chosen[i - 1] == dims[i - 1].spans.size()) chosen[--i] = 0;
    if (i == 0) return;
  }
}

llvm::Error AddTensor(const TensorToSave& tensor, GivenState& given) {
  HeldEntry entry;
  entry.key = KeyOf(tensor.path);
  entry.path = tensor.path;
  entry.is_tensor = true;
  const std::optional<DType> dtype = DTypeFromName(tensor.dtype);
  if (!dtype) {
    return Fail(ErrorCode::kUsage, "`{}` has numbers of the unknown kind `{}`; kinds are named as PyTorch's", entry.key,
                tensor.dtype);
  }
  entry.dtype = *dtype;
  entry.shape = tensor.shape;
  UCP_ASSIGN_OR_RETURN(const std::vector<HeldDim> dims, DimsOf(entry.key, tensor));
  const std::vector<std::int64_t> strides = StridesOf(tensor, dims);
  UCP_RETURN_IF_ERROR(CheckMemory(entry.key, tensor, dims, strides, ItemBytes(*dtype)));
  AddBoxes(tensor, dims, strides, ItemBytes(*dtype), entry, given.memories.emplace_back());
  given.held.push_back(std::move(entry));
  if (tensor.owner != nullptr) given.owners.push_back(tensor.owner);
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<GivenState> StateToHold(const StateToSave& state) {
  GivenState given;
  for (const TensorToSave& tensor : state.tensors) UCP_RETURN_IF_ERROR(AddTensor(tensor, given));
  std::vector<PlainValue> values;
  for (const ValueToSave& value : state.values) {
    HeldEntry entry;
    entry.key = KeyOf(value.path);
    entry.path = value.path;
    values.push_back({entry.key, value.value});
    given.held.push_back(std::move(entry));
    given.memories.emplace_back();
  }
  std::set<std::string_view> keys;
  for (const HeldEntry& entry : given.held) {
    if (entry.key.empty()) return Fail(ErrorCode::kUsage, "an entry of the state has no path");
    if (!keys.insert(entry.key).second) {
      return Fail(ErrorCode::kUsage, "two entries of the state have the key `{}`", entry.key);
    }
  }
  if (!values.empty()) given.values = PickledValues(values);
  return given;
}

}  // namespace ucp
