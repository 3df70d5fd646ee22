#include "compiler/formats/pytorch/values/value.h"

#include <algorithm>
#include <string_view>

#include "compiler/formats/pytorch/values/torch_names.h"

namespace ucp::pytorch {
namespace {

template <typename T>
ValuePtr Make(T content) {
  return std::make_shared<const Value>(std::move(content));
}

}  // namespace

ValuePtr MakeNone() {
  static const ValuePtr none = Make(None{});
  return none;
}

ValuePtr MakeBool(bool value) {
  static const ValuePtr values[] = {Make(false), Make(true)};
  return values[value ? 1 : 0];
}

ValuePtr MakeInteger(std::int64_t value) { return Make(value); }
ValuePtr MakeDouble(double value) { return Make(value); }
ValuePtr MakeText(std::string utf8) { return Make(Text{std::move(utf8)}); }
ValuePtr MakeBytes(std::string bytes) { return Make(Bytes{std::move(bytes)}); }
ValuePtr MakeList(std::vector<ValuePtr> items) { return Make(List{std::move(items)}); }
ValuePtr MakeTuple(std::vector<ValuePtr> items) { return Make(Tuple{std::move(items)}); }
ValuePtr MakeDict(std::vector<Entry> entries) { return Make(Dict{std::move(entries)}); }
ValuePtr MakeGlobal(std::string module, std::string name) { return Make(Global{std::move(module), std::move(name)}); }
ValuePtr MakeCall(Call call) { return Make(std::move(call)); }
ValuePtr MakeTensor(Tensor tensor) { return Make(std::move(tensor)); }

ValuePtr MakeOrderedDict(std::vector<Entry> entries) {
  Call call;
  call.callable = MakeGlobal("collections", "OrderedDict");
  call.arguments = MakeTuple({});
  call.entries = std::move(entries);
  return MakeCall(std::move(call));
}

ValuePtr MakeTorchSize(const std::vector<std::int64_t>& sizes) {
  std::vector<ValuePtr> items;
  for (const std::int64_t size : sizes) items.push_back(MakeInteger(size));
  static const ValuePtr size_class = MakeGlobal("torch", "Size");
  Call call;
  call.callable = size_class;
  call.arguments = MakeTuple({MakeTuple(std::move(items))});
  return MakeCall(std::move(call));
}

ValuePtr MakeDTypeGlobal(DType dtype) { return MakeGlobal("torch", std::string(Name(dtype))); }

ValuePtr MakeWholeTensor(std::string storage_key, DType dtype, std::vector<std::int64_t> sizes) {
  Storage storage;
  storage.key = std::move(storage_key);
  storage.untyped = !StorageClassName(dtype).has_value();
  storage.dtype = storage.untyped ? DType::kUInt8 : dtype;
  storage.elements = storage.untyped ? ItemBytes(dtype) : 1;
  for (const std::int64_t size : sizes) storage.elements *= size;
  Tensor tensor;
  tensor.storage = std::make_shared<const Storage>(std::move(storage));
  tensor.dtype = dtype;
  tensor.strides = ContiguousStrides(sizes);
  tensor.sizes = std::move(sizes);
  return MakeTensor(std::move(tensor));
}

std::vector<std::int64_t> ContiguousStrides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

}  // namespace ucp::pytorch
