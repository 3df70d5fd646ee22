#include "compiler/formats/pytorch/values/tensor_forms.h"

#include <algorithm>
#include <span>

#include "compiler/formats/pytorch/values/torch_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

using Arguments = std::span<const ValuePtr>;

llvm::Error WrongArguments(std::string_view function) {
  return Fail(ErrorCode::kBadData, "the arguments of `{}` are not what PyTorch passes", function);
}

// Sizes and strides are not negative, every element is within the storage, and the count of elements fits.
llvm::Error CheckExtent(const Tensor& tensor) {
  bool is_empty = false;
  std::optional<std::int64_t> elements = 1;
  std::optional<std::int64_t> last = tensor.offset;  // The largest place of an element.
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const std::int64_t size = tensor.sizes[i];
    const std::int64_t stride = tensor.strides[i];
    if (size < 0 || stride < 0) {
      return Fail(ErrorCode::kBadData, "a tensor has the size {} with the stride {}", size, stride);
    }
    if (size == 0) is_empty = true;
    if (elements) elements = CheckedMultiply(*elements, std::max<std::int64_t>(size, 1));
    const auto reach = CheckedMultiply(std::max<std::int64_t>(size, 1) - 1, stride);
    last = last && reach ? CheckedAdd(*last, *reach) : std::nullopt;
  }
  const bool has_place = tensor.offset >= 0 && CheckedMultiply(tensor.offset, ItemBytes(tensor.dtype)).has_value();
  if (!elements || !has_place) return Fail(ErrorCode::kBadData, "a tensor's sizes or its offset are impossible");
  if (is_empty) return llvm::Error::success();

  const Storage& storage = *tensor.storage;
  const std::int64_t held = storage.elements * ItemBytes(storage.dtype) / ItemBytes(tensor.dtype);
  if (last && *last < held) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "a tensor reaches beyond the {} elements of its storage `{}`", held, storage.key);
}

llvm::Expected<std::vector<std::int64_t>> Integers(const Value& value, std::string_view function) {
  constexpr std::size_t kMostDimensions = 64;  // PyTorch's own limit.
  const auto* items = Items(value);
  if (items != nullptr && items->size() > kMostDimensions) {
    return Fail(ErrorCode::kUnsupported, "a tensor has {} dimensions, more than the {} that PyTorch supports",
                items->size(), kMostDimensions);
  }
  auto integers = AsIntegers(value);
  if (!integers) return WrongArguments(function);
  return *std::move(integers);
}

// (storage, offset, sizes, strides[, requires_grad, hooks[, dtype][, metadata]]). The hooks are dropped.
llvm::Expected<Tensor> Rebuild(std::string_view function, Arguments arguments, bool has_flags, bool has_dtype) {
  const std::size_t least = has_dtype ? 7 : has_flags ? 6 : 4;
  if (arguments.size() < least || arguments.size() > (has_flags ? least + 1 : least)) return WrongArguments(function);
  const auto* storage = arguments[0]->As<StorageReference>();
  const auto offset = AsInteger(*arguments[1]);
  const auto requires_grad = has_flags ? AsBool(*arguments[4]) : false;
  const auto dtype = has_dtype ? AsDType(*arguments[6])
                     : storage ? std::optional(storage->storage->dtype)
                               : std::nullopt;
  if (storage == nullptr || !offset || !requires_grad) return WrongArguments(function);
  if (!dtype) return Fail(ErrorCode::kUnsupported, "a tensor has a dtype that is not known here");

  if (arguments.size() > least && !arguments[least]->is_none()) {
    const auto* metadata = arguments[least]->As<Dict>();
    if (metadata == nullptr || !metadata->entries.empty()) {
      return Fail(ErrorCode::kUnsupported, "a tensor is a conjugated or negated view, which is not served");
    }
  }
  Tensor tensor;
  tensor.storage = storage->storage;
  tensor.dtype = *dtype;
  tensor.offset = *offset;
  UCP_ASSIGN_OR_RETURN(tensor.sizes, Integers(*arguments[2], function));
  UCP_ASSIGN_OR_RETURN(tensor.strides, Integers(*arguments[3], function));
  tensor.requires_grad = *requires_grad;
  if (tensor.sizes.size() != tensor.strides.size()) return WrongArguments(function);
  UCP_RETURN_IF_ERROR(CheckExtent(tensor));
  return tensor;
}

// (tensor, requires_grad, hooks[, state]).
llvm::Expected<Tensor> RebuildParameter(std::string_view function, Arguments arguments, bool has_state) {
  if (arguments.size() != (has_state ? 4 : 3)) return WrongArguments(function);
  const auto* data = arguments[0]->As<Tensor>();
  const auto requires_grad = AsBool(*arguments[1]);
  if (data == nullptr || !requires_grad || data->is_parameter || data->attributes) return WrongArguments(function);
  Tensor tensor = *data;
  tensor.is_parameter = true;
  tensor.requires_grad = *requires_grad;
  if (has_state) tensor.attributes = arguments[3];
  return tensor;
}

// (function, class, arguments, state): a tensor with Python attributes.
llvm::Expected<Tensor> RebuildFromType(std::string_view function, Arguments arguments) {
  if (arguments.size() != 4) return WrongArguments(function);
  const auto* inner = arguments[0]->As<Global>();
  const auto* inner_arguments = arguments[2]->As<Tuple>();
  if (inner == nullptr || arguments[1]->As<Global>() == nullptr || inner_arguments == nullptr ||
      inner->module != "torch._utils") {
    return WrongArguments(function);
  }
  UCP_ASSIGN_OR_RETURN(Tensor tensor, TensorFromCall(*inner, *inner_arguments));
  if (tensor.attributes) return WrongArguments(function);
  tensor.python_class = arguments[1];
  tensor.attributes = arguments[3];
  return tensor;
}

// (tensor, dtype, device, requires_grad): from a device that has no storages of its own; the data is the tensor's.
llvm::Expected<Tensor> RebuildFromCpuTensor(std::string_view function, Arguments arguments) {
  if (arguments.size() != 4) return WrongArguments(function);
  const auto* data = arguments[0]->As<Tensor>();
  const auto dtype = AsDType(*arguments[1]);
  const auto requires_grad = AsBool(*arguments[3]);
  if (data == nullptr || !AsText(*arguments[2]) || !requires_grad) return WrongArguments(function);
  if (dtype != data->dtype) {
    return Fail(ErrorCode::kUnsupported, "a tensor of a device is kept as {} and has another dtype there",
                Name(data->dtype));
  }
  Tensor tensor = *data;
  tensor.requires_grad = *requires_grad;
  return tensor;
}

}  // namespace

bool MakesTensor(const Global& function) {
  return (function.module == "torch._utils" || function.module == "torch._tensor") &&
         function.name.starts_with("_rebuild");
}

llvm::Expected<Tensor> TensorFromCall(const Global& function, const Tuple& arguments) {
  const std::string_view name = function.name;
  if (name == "_rebuild_tensor_v2") return Rebuild(name, arguments.items, true, false);
  if (name == "_rebuild_tensor_v3") return Rebuild(name, arguments.items, true, true);
  if (name == "_rebuild_tensor") return Rebuild(name, arguments.items, false, false);
  if (name == "_rebuild_parameter") return RebuildParameter(name, arguments.items, false);
  if (name == "_rebuild_parameter_with_state") return RebuildParameter(name, arguments.items, true);
  if (name == "_rebuild_from_type_v2") return RebuildFromType(name, arguments.items);
  if (name == "_rebuild_device_tensor_from_cpu_tensor") return RebuildFromCpuTensor(name, arguments.items);
  if (name == "_rebuild_meta_tensor_no_storage") {
    return Fail(ErrorCode::kUnsupported, "a tensor is on the device `meta`: it has a shape and no data");
  }
  return Fail(ErrorCode::kUnsupported, "a tensor of the kind that `{:.80}` makes is not served; only dense ones are",
              name);
}

bool MakesDTensor(const Global& function, const Tuple& arguments) {
  if (function.module != "torch._tensor" || function.name != "_rebuild_from_type_v2") return false;
  if (arguments.items.size() != 4) return false;
  const auto* inner = arguments.items[0]->As<Global>();
  const auto* made = arguments.items[1]->As<Global>();
  return inner != nullptr && inner->module == "torch._utils" && inner->name == "_rebuild_wrapper_subclass" &&
         made != nullptr && made->module == "torch.distributed.tensor" && made->name == "DTensor";
}

llvm::Expected<Tensor> LocalOfDTensor(const Tuple& arguments) {
  // Its attributes are slots, so that the state is a pair of a dict, or None, and the dict of slots.
  const ValuePtr& state = arguments.items[3];
  const auto* parts = state->As<Tuple>();
  const bool is_pair = parts != nullptr && parts->items.size() == 2;
  const ValuePtr local = Find(is_pair ? *parts->items[1] : *state, "_local_tensor");
  const Tensor* held = local == nullptr ? nullptr : local->As<Tensor>();
  if (held == nullptr) return Fail(ErrorCode::kBadData, "a DTensor has no tensor `_local_tensor`");
  if (held->python_class) {
    return Fail(ErrorCode::kUnsupported, "the `_local_tensor` of a DTensor is of a class of its own, and not plain");
  }
  Tensor tensor = *held;
  tensor.python_class = arguments.items[1];
  return tensor;
}

llvm::Expected<Storage> StorageFromPersistentId(const Value& id) {
  const auto* parts = id.As<Tuple>();
  const std::size_t count = parts == nullptr ? 0 : parts->items.size();
  if ((count != 5 && count != 6) || AsText(*parts->items[0]) != "storage") {
    return Fail(ErrorCode::kBadData, "a persistent id is not that of a storage");
  }
  if (count == 6 && !parts->items[5]->is_none()) {
    return Fail(ErrorCode::kUnsupported,
                "a storage is a part of another one; load the file with torch.load and save it again with torch.save");
  }
  const auto* storage_class = parts->items[1]->As<Global>();
  const auto key = AsText(*parts->items[2]);
  const auto location = AsText(*parts->items[3]);
  const auto elements = AsInteger(*parts->items[4]);
  constexpr std::size_t kLongest = 1024;
  if (storage_class == nullptr || !key || !location || !elements || *elements < 0 || key->size() > kLongest ||
      location->size() > kLongest) {
    return Fail(ErrorCode::kBadData, "a storage is not described as PyTorch does it");
  }
  Storage storage;
  storage.key = *key;
  storage.location = *location;
  storage.elements = *elements;
  storage.untyped = storage_class->name == "UntypedStorage";
  const auto dtype = storage.untyped ? DType::kUInt8 : StorageClassDType(storage_class->name);
  const std::string_view module = storage_class->module;
  if (!dtype || (module != "torch" && module != "torch.storage" && module != "torch.cuda")) {
    return Fail(ErrorCode::kUnsupported, "a storage of the class `{:.80}.{:.80}` is not served", module,
                storage_class->name);
  }
  storage.dtype = *dtype;
  if (!CheckedMultiply(*elements, ItemBytes(*dtype))) {
    return Fail(ErrorCode::kBadData, "the storage `{:.80}` claims to have {} elements", *key, *elements);
  }
  return storage;
}

}  // namespace ucp::pytorch
