// The meaning of a pickle inside a PyTorch file, as plain data: a tree of values that is read, changed and written
// again without importing or calling anything. Objects of classes that we do not know stay as the recipe that makes
// them (a Call), so that they can be written again unchanged. README.md lists the forms.
//
// A ValuePtr is never null unless a member says so. Values are immutable once built, so trees can share parts and be
// used from several threads. Sharing carries meaning: one object of Python is one pointer here, and the writer writes
// it once. Values are built bottom-up, so none can contain itself.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/layout/dtype.h"

namespace ucp::pytorch {

class Value;
using ValuePtr = std::shared_ptr<const Value>;

struct None {};

// An integer outside 64 bits: little-endian two's complement, as Python pickles it.
struct BigInteger {
  std::string bytes;
};

struct Text {
  std::string utf8;  // Python's lone surrogates, if any, as three bytes each.
};

// Written at protocol 2 as a call of `_codecs.encode`, and read back from it.
struct Bytes {
  std::string bytes;
};

struct List {
  std::vector<ValuePtr> items;
};

struct Tuple {
  std::vector<ValuePtr> items;
};

struct Entry {
  ValuePtr key;
  ValuePtr value;
};

// In the order of the file. The reader refuses a text or integer key that stands twice.
struct Dict {
  std::vector<Entry> entries;
};

// A class, function or constant by its name; never looked up.
struct Global {
  std::string module;
  std::string name;
};

// `callable(*arguments)`, then appended items, then entries, then a state: everything that Python's pickler says about
// an object. OrderedDict, torch.Size, Namespace, enums, numpy arrays and classes unknown to us have this form.
struct Call {
  enum class Form {
    kReduce,     // callable(*arguments)
    kNewObject,  // callable.__new__(callable, *arguments)
  };
  Form form = Form::kReduce;
  ValuePtr callable;   // A Global, or a Call that results in something callable.
  ValuePtr arguments;  // A Tuple.
  std::vector<ValuePtr> items;
  std::vector<Entry> entries;
  ValuePtr state;  // Null if there is none.
};

// One run of elements in the file, that tensors are views of. Tensors that share memory share the pointer.
struct Storage {
  std::string key;                // The record `data/<key>`.
  DType dtype = DType::kFloat32;  // kUInt8 when untyped.
  bool untyped = false;           // torch.UntypedStorage: the tensor says what the bytes are.
  std::string location = "cpu";   // "cuda:3" in files written from a GPU.
  std::int64_t elements = 0;
};

// torch.Tensor or torch.nn.Parameter. In a tensor of the reader, every element lies within the storage, and the number
// of elements fits 63 bits. (It may still be far more than the storage holds: strides can be 0. Do not allocate by it.)
struct Tensor {
  std::shared_ptr<const Storage> storage;
  DType dtype = DType::kFloat32;
  std::int64_t offset = 0;  // In elements of `dtype`, as are the strides.
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool requires_grad = false;
  bool is_parameter = false;
  // Python attributes: the class and the state of `_rebuild_from_type_v2`, or both null. For a parameter, `attributes`
  // alone may be set (`_rebuild_parameter_with_state`), and for a rank's part of a DTensor `python_class` alone, where
  // the reader was asked for such parts (PickleLimits).
  ValuePtr python_class;
  ValuePtr attributes;
};

// A storage that stands in the tree by itself.
struct StorageReference {
  std::shared_ptr<const Storage> storage;
};

class Value {
 public:
  template <typename T>
  explicit Value(T content) : content_(Store(std::move(content))) {}

  // value.As<Tensor>(): the content, or null if it is of another kind.
  template <typename T>
  const T* As() const {
    const auto* stored = std::get_if<Stored<T>>(&content_);
    if constexpr (kIsLarge<T>) return stored == nullptr ? nullptr : stored->get();
    if constexpr (!kIsLarge<T>) return stored;
  }
  bool is_none() const { return As<None>() != nullptr; }

  // Returns the result of `visitor`, which takes any kind, on the content.
  template <typename Visitor>
  auto Visit(const Visitor& visitor) const {
    return std::visit(
        [&](const auto& stored) {
          if constexpr (requires { stored.get(); }) return visitor(std::as_const(*stored));
          if constexpr (!requires { stored.get(); }) return visitor(stored);
        },
        content_);
  }

 private:
  friend class ValueBuilder;  // Fills lists and dicts while reading; pickle_reader.cpp.

  // Of the kinds that are large there are few values. They have memory of their own, so that the others take little.
  template <typename T>
  static constexpr bool kIsLarge = std::same_as<T, Global> || std::same_as<T, Call> || std::same_as<T, Tensor>;
  template <typename T>
  using Stored = std::conditional_t<kIsLarge<T>, std::unique_ptr<T>, T>;

  template <typename T>
  static Stored<T> Store(T content) {
    if constexpr (kIsLarge<T>) return std::make_unique<T>(std::move(content));
    if constexpr (!kIsLarge<T>) return content;
  }

  std::variant<None, bool, std::int64_t, BigInteger, double, Text, Bytes, List, Tuple, Dict, Stored<Global>,
               Stored<Call>, Stored<Tensor>, StorageReference>
      content_;
};

ValuePtr MakeNone();
ValuePtr MakeBool(bool value);
ValuePtr MakeInteger(std::int64_t value);
ValuePtr MakeDouble(double value);
ValuePtr MakeText(std::string utf8);
ValuePtr MakeBytes(std::string bytes);
ValuePtr MakeList(std::vector<ValuePtr> items);
ValuePtr MakeTuple(std::vector<ValuePtr> items);
ValuePtr MakeDict(std::vector<Entry> entries);
ValuePtr MakeGlobal(std::string module, std::string name);
ValuePtr MakeCall(Call call);
ValuePtr MakeTensor(Tensor tensor);
// collections.OrderedDict; torch.Size; the class `torch.<dtype>`.
ValuePtr MakeOrderedDict(std::vector<Entry> entries);
ValuePtr MakeTorchSize(const std::vector<std::int64_t>& sizes);
ValuePtr MakeDTypeGlobal(DType dtype);

// Returns a contiguous tensor on the CPU that is the whole of a storage of its own with this key.
ValuePtr MakeWholeTensor(std::string storage_key, DType dtype, std::vector<std::int64_t> sizes);

// Row-major strides for these sizes, as torch gives them to a new tensor (a size of 0 counts as 1).
std::vector<std::int64_t> ContiguousStrides(const std::vector<std::int64_t>& sizes);

}  // namespace ucp::pytorch
