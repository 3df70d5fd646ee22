// Numbers, texts and containers are made here. All else is asked of `maker`, which gets names and parts as data and
// builds what its own table says (ucp_checkpoint/_objects.py). Before anything is made, all objects must be known ones.
#include "runtime/python/values.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/objects/known_objects.h"
#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/support/error.h"
#include "runtime/python/raise.h"

namespace nb = nanobind;

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::Value;
using pytorch::ValuePtr;

nb::object TextOf(const std::string& utf8) {
  PyObject* text = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

// Little-endian two's complement.
nb::object IntegerOf(const std::string& bytes) {
  nb::object type = nb::module_::import_("builtins").attr("int");
  return type.attr("from_bytes")(nb::bytes(bytes.data(), bytes.size()), "little", nb::arg("signed") = true);
}

class Making {
 public:
  explicit Making(nb::object maker) : maker_(std::move(maker)) {}

  // One object for each value, however often it is shared.
  nb::object Make(const ValuePtr& value) {
    if (const auto made = made_.find(value.get()); made != made_.end()) return made->second;
    nb::object object = value->Visit([this](const auto& content) { return Of(content); });
    made_.emplace(value.get(), object);
    return object;
  }

 private:
  nb::object Of(const pytorch::None&) { return nb::none(); }
  nb::object Of(bool flag) { return nb::bool_(flag); }
  nb::object Of(std::int64_t number) { return nb::int_(number); }
  nb::object Of(const pytorch::BigInteger& number) { return IntegerOf(number.bytes); }
  nb::object Of(double number) { return nb::float_(number); }
  nb::object Of(const pytorch::Text& text) { return TextOf(text.utf8); }
  nb::object Of(const pytorch::Bytes& bytes) { return nb::bytes(bytes.bytes.data(), bytes.bytes.size()); }
  nb::object Of(const pytorch::List& list) { return ListOf(list.items); }
  nb::object Of(const pytorch::Tuple& tuple) { return nb::tuple(ListOf(tuple.items)); }
  nb::object Of(const pytorch::Dict& dict) {
    nb::dict made;
    for (const Entry& entry : dict.entries) made[Make(entry.key)] = Make(entry.value);
    return made;
  }
  nb::object Of(const pytorch::Global& global) { return maker_.attr("named")(objects::NameOf(global)); }
  nb::object Of(const pytorch::StorageReference& reference) {
    const pytorch::Storage& storage = *reference.storage;
    return maker_.attr("storage")(storage.key, Name(storage.dtype), storage.untyped);
  }
  nb::object Of(const pytorch::Tensor& tensor) {
    nb::object attributes = tensor.attributes == nullptr ? nb::object(nb::none()) : Make(tensor.attributes);
    const bool is_parameter = tensor.is_parameter || IsParameterClass(tensor);
    return maker_.attr("tensor")(tensor.storage->key, Name(tensor.dtype), tensor.offset, tensor.sizes, tensor.strides,
                                 tensor.requires_grad, is_parameter, attributes);
  }
  nb::object Of(const pytorch::Call& call) {
    const auto* callable = call.callable->As<pytorch::Global>();
    nb::object state = call.state == nullptr ? nb::object(nb::none()) : Make(call.state);
    nb::dict entries;
    for (const Entry& entry : call.entries) entries[Make(entry.key)] = Make(entry.value);
    return maker_.attr("call")(objects::NameOf(*callable), Make(call.arguments), ListOf(call.items), entries, state);
  }

  static bool IsParameterClass(const pytorch::Tensor& tensor) {
    const auto* global = tensor.python_class == nullptr ? nullptr : tensor.python_class->As<pytorch::Global>();
    return global != nullptr && global->name == "Parameter";
  }

  nb::list ListOf(const std::vector<ValuePtr>& items) {
    nb::list list;
    for (const ValuePtr& item : items) list.append(Make(item));
    return list;
  }

  nb::object maker_;
  std::unordered_map<const Value*, nb::object> made_;
};

nb::object ReadPickle(const nb::bytes& bytes, const nb::object& maker) {
  llvm::Expected<pytorch::Pickle> pickle =
      pytorch::ReadPickle(std::string_view(static_cast<const char*>(bytes.data()), bytes.size()));
  if (!pickle) Raise(pickle.takeError());
  return MakeValue(pickle->root, maker);
}

}  // namespace

nb::object MakeValue(const ValuePtr& value, const nb::object& maker) {
  if (const Value* unknown = objects::KnownObjects().FindUnknown(*value)) {
    Raise(Fail(ErrorCode::kUnsupported,
               "an object whose making would run `{}` is not built inside a job; leave `{}` out of keep_opaque",
               objects::CallText(*unknown), objects::ObjectName(*unknown)));
  }
  return Making(maker).Make(value);
}

void AddValues(nb::module_& module) { module.def("read_pickle", &ReadPickle, nb::arg("pickle"), nb::arg("maker")); }

}  // namespace ucp
