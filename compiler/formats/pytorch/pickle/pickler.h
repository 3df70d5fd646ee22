// The pickler behind WritePickle(): the bytes of each kind of value, and the numbers by which objects are named again.
#pragma once

#include <llvm/ADT/DenseMap.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// Writes the bytes that Python's own pickler would, so that the bytes of a tree that was read are mostly those of the
// file: an object gets the next number when it is complete (lists and dicts already while they are empty), and is named
// by that number when it comes again. Numbers and None get none. Texts and classes are the same when they are equal.
class Pickler {
 public:
  // `show` is called with each storage that is written; it may be empty.
  explicit Pickler(const std::function<void(const Storage&)>& show) : show_(show) {}

  // Returns the whole pickle. Call once.
  std::string Write(const Value& root);

 private:
  static constexpr int kDeepest = 1000;
  static constexpr std::size_t kBatch = 1000;  // Python's pickler fills lists and dicts in groups of this size.

  void WriteValue(const Value& value);
  void Write(const Value&, const None&) { Code('N'); }
  void Write(const Value&, bool content) { Code(content ? 0x88 : 0x89); }
  void Write(const Value&, std::int64_t content) { WriteInteger(content); }
  void Write(const Value&, const BigInteger& content) { WriteLong(content.bytes); }
  void Write(const Value&, double content);
  void Write(const Value& value, const Text& content) { numbers_[&value] = WriteText(content.utf8); }
  void Write(const Value& value, const Bytes& content);
  void Write(const Value& value, const List& list);
  void Write(const Value& value, const Tuple& tuple);
  void Write(const Value& value, const Dict& dict);
  void Write(const Value& value, const Global& content) {
    numbers_[&value] = WriteGlobal(content.module, content.name);
  }
  void Write(const Value& value, const Call& call);
  void Write(const Value& value, const Tensor& tensor);
  void Write(const Value&, const StorageReference& content) { WriteStorage(*content.storage); }

  void Code(int code) { bytes_.push_back(static_cast<char>(code)); }
  void WriteUnsigned(std::uint64_t value, int width);
  void WriteInteger(std::int64_t value);
  void WriteLong(std::string_view twos_complement);
  void WriteNewText(std::string_view utf8);
  // Give the number.
  std::uint32_t WriteText(std::string_view utf8);
  std::uint32_t WriteGlobal(std::string_view module, std::string_view name);
  void WriteItems(const std::vector<ValuePtr>& items);
  void WriteEntries(const std::vector<Entry>& entries);
  void WriteIntegers(const std::vector<std::int64_t>& integers);
  // Around the items of a tuple.
  void OpenTuple(std::size_t count);
  void CloseTuple(std::size_t count);

  // pickler_tensors.cpp.
  void WriteStorage(const Storage& storage);
  void WriteNoHooks();
  void WriteData(const Tensor& tensor, bool requires_grad);
  void WriteDataFunction(const Tensor& tensor);
  void WriteDataArguments(const Tensor& tensor, bool requires_grad);
  void WriteParameter(const Tensor& tensor, const ValuePtr& attributes);
  void WriteParameterArguments(const Tensor& tensor, const ValuePtr& attributes);
  void WriteWithClass(const Tensor& tensor);

  std::uint32_t Memoize();
  void MemoizeAs(const Value& value) { numbers_[&value] = Memoize(); }
  std::uint32_t Recall(std::uint32_t number);

  const std::function<void(const Storage&)>& show_;
  std::string bytes_;
  int depth_ = 0;
  std::uint32_t next_number_ = 0;
  llvm::DenseMap<const Value*, std::uint32_t> numbers_;
  std::unordered_map<std::string_view, std::uint32_t> text_numbers_;
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> global_numbers_;
};

}  // namespace ucp::pytorch
