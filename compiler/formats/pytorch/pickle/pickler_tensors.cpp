// How the pickler writes tensors: as calls of the functions of torch._utils, around the persistent id of their storage.
#include "compiler/formats/pytorch/pickle/pickler.h"
#include "compiler/formats/pytorch/values/torch_names.h"
#include "compiler/support/check.h"

namespace ucp::pytorch {

// ('storage', class, key, location, elements), never named by number.
void Pickler::WriteStorage(const Storage& storage) {
  if (show_) show_(storage);
  const auto class_name = storage.untyped ? std::nullopt : StorageClassName(storage.dtype);
  UCP_CHECK(storage.untyped || class_name, "storages of {} have no class and are written untyped", Name(storage.dtype));
  OpenTuple(5);
  WriteText("storage");
  WriteGlobal(storage.untyped ? "torch.storage" : "torch", class_name.value_or("UntypedStorage"));
  WriteText(storage.key);
  WriteText(storage.location);
  WriteInteger(storage.elements);
  CloseTuple(5);
  Code('Q');
}

void Pickler::WriteNoHooks() {
  WriteGlobal("collections", "OrderedDict");
  Code(')'), Code('R');
  Memoize();
}

namespace {

// The older form takes the dtype from the storage.
bool NamesDType(const Tensor& tensor) { return tensor.storage->untyped || tensor.dtype != tensor.storage->dtype; }

}  // namespace

void Pickler::WriteDataFunction(const Tensor& tensor) {
  WriteGlobal("torch._utils", NamesDType(tensor) ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
}

void Pickler::WriteDataArguments(const Tensor& tensor, bool requires_grad) {
  const std::size_t count = NamesDType(tensor) ? 7 : 6;
  OpenTuple(count);
  WriteStorage(*tensor.storage);
  WriteInteger(tensor.offset);
  WriteIntegers(tensor.sizes);
  WriteIntegers(tensor.strides);
  Code(requires_grad ? 0x88 : 0x89);
  WriteNoHooks();
  if (NamesDType(tensor)) WriteGlobal("torch", Name(tensor.dtype));
  CloseTuple(count);
}

void Pickler::WriteData(const Tensor& tensor, bool requires_grad) {
  WriteDataFunction(tensor);
  WriteDataArguments(tensor, requires_grad);
  Code('R');
  Memoize();
}

void Pickler::WriteParameterArguments(const Tensor& tensor, const ValuePtr& attributes) {
  const std::size_t count = attributes ? 4 : 3;
  OpenTuple(count);
  WriteData(tensor, false);
  Code(tensor.requires_grad ? 0x88 : 0x89);
  WriteNoHooks();
  if (attributes) WriteValue(*attributes);
  CloseTuple(count);
}

void Pickler::WriteParameter(const Tensor& tensor, const ValuePtr& attributes) {
  WriteGlobal("torch._utils", attributes ? "_rebuild_parameter_with_state" : "_rebuild_parameter");
  WriteParameterArguments(tensor, attributes);
  Code('R');
  Memoize();
}

// _rebuild_from_type_v2(function, class, arguments, attributes)
void Pickler::WriteWithClass(const Tensor& tensor) {
  WriteGlobal("torch._tensor", "_rebuild_from_type_v2");
  OpenTuple(4);
  if (tensor.is_parameter) {
    WriteGlobal("torch._utils", "_rebuild_parameter");
    WriteValue(*tensor.python_class);
    WriteParameterArguments(tensor, nullptr);
  } else {
    WriteDataFunction(tensor);
    WriteValue(*tensor.python_class);
    WriteDataArguments(tensor, tensor.requires_grad);
  }
  WriteValue(*tensor.attributes);
  CloseTuple(4);
  Code('R');
  Memoize();
}

void Pickler::Write(const Value& value, const Tensor& tensor) {
  if (tensor.python_class) {
    WriteWithClass(tensor);
  } else if (tensor.is_parameter) {
    WriteParameter(tensor, tensor.attributes);
  } else {
    WriteData(tensor, tensor.requires_grad);
  }
  numbers_[&value] = next_number_ - 1;
}

}  // namespace ucp::pytorch
