#include "compiler/formats/pytorch/pickle/pickler.h"

#include <algorithm>
#include <bit>

#include "compiler/formats/pytorch/values/utf8.h"
#include "compiler/support/check.h"

namespace ucp::pytorch {

std::string Pickler::Write(const Value& root) {
  Code(0x80), Code(2);
  WriteValue(root);
  Code('.');
  return std::move(bytes_);
}

void Pickler::WriteValue(const Value& value) {
  // Most values are integers, which get no number: to look for one would take longer than to write them.
  if (const auto* integer = value.As<std::int64_t>()) return WriteInteger(*integer);
  if (const auto known = numbers_.find(&value); known != numbers_.end()) {
    Recall(known->second);
    return;
  }
  ++depth_;
  UCP_CHECK(depth_ <= kDeepest, "a tree to be pickled is deeper than {} levels", kDeepest);
  value.Visit([&](const auto& content) { Write(value, content); });
  --depth_;
}

std::uint32_t Pickler::Memoize() {
  if (next_number_ < 256) {
    Code('q'), WriteUnsigned(next_number_, 1);
  } else {
    Code('r'), WriteUnsigned(next_number_, 4);
  }
  return next_number_++;
}

std::uint32_t Pickler::Recall(std::uint32_t number) {
  if (number < 256) {
    Code('h'), WriteUnsigned(number, 1);
  } else {
    Code('j'), WriteUnsigned(number, 4);
  }
  return number;
}

void Pickler::WriteUnsigned(std::uint64_t value, int width) {
  static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");
  bytes_.append(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(width));
}

void Pickler::WriteInteger(std::int64_t value) {
  if (value >= 0 && value < 0x100) {
    Code('K'), WriteUnsigned(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 0x10000) {
    Code('M'), WriteUnsigned(static_cast<std::uint64_t>(value), 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    Code('J'), WriteUnsigned(static_cast<std::uint64_t>(value), 4);
  } else {
    // The fewest bytes that keep the sign.
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
    const char filler = value < 0 ? '\xff' : '\0';
    const auto sign = [](char byte) { return (byte & 0x80) != 0; };
    while (bytes.back() == filler && sign(bytes[bytes.size() - 2]) == (value < 0)) bytes.pop_back();
    WriteLong(bytes);
  }
}

void Pickler::WriteLong(std::string_view twos_complement) {
  if (twos_complement.size() < 256) {
    Code(0x8a), WriteUnsigned(twos_complement.size(), 1);
  } else {
    Code(0x8b), WriteUnsigned(twos_complement.size(), 4);
  }
  bytes_ += twos_complement;
}

void Pickler::Write(const Value&, double content) {
  Code('G');
  const auto bits = std::bit_cast<std::uint64_t>(content);
  for (int i = 7; i >= 0; --i) Code(static_cast<int>(bits >> (8 * i) & 0xff));
}

void Pickler::WriteNewText(std::string_view utf8) {
  UCP_CHECK(utf8.size() <= UINT32_MAX, "a text of {} bytes does not fit a pickle", utf8.size());
  Code('X'), WriteUnsigned(utf8.size(), 4);
  bytes_ += utf8;
}

std::uint32_t Pickler::WriteText(std::string_view utf8) {
  const auto [known, is_new] = text_numbers_.try_emplace(utf8, next_number_);
  if (!is_new) return Recall(known->second);
  WriteNewText(utf8);
  return Memoize();
}

// Protocol 2 has no bytes: they are the call `_codecs.encode(text, 'latin1')`.
void Pickler::Write(const Value& value, const Bytes& content) {
  WriteGlobal("_codecs", "encode");
  WriteNewText(Latin1Text(content.bytes));
  Memoize();
  WriteText("latin1");
  CloseTuple(2);
  Code('R');
  MemoizeAs(value);
}

std::uint32_t Pickler::WriteGlobal(std::string_view module, std::string_view name) {
  const std::pair key(module, name);
  if (const auto known = global_numbers_.find(key); known != global_numbers_.end()) return Recall(known->second);
  Code('c');
  bytes_ += module;
  Code('\n');
  bytes_ += name;
  Code('\n');
  return global_numbers_[key] = Memoize();
}

void Pickler::Write(const Value& value, const List& list) {
  Code(']');
  MemoizeAs(value);
  WriteItems(list.items);
}

void Pickler::Write(const Value& value, const Dict& dict) {
  Code('}');
  MemoizeAs(value);
  WriteEntries(dict.entries);
}

void Pickler::WriteItems(const std::vector<ValuePtr>& items) {
  for (std::size_t begin = 0; begin < items.size(); begin += kBatch) {
    const std::size_t end = std::min(begin + kBatch, items.size());
    const bool is_one = end - begin == 1;
    if (!is_one) Code('(');
    for (std::size_t i = begin; i < end; ++i) WriteValue(*items[i]);
    Code(is_one ? 'a' : 'e');
  }
}

void Pickler::WriteEntries(const std::vector<Entry>& entries) {
  for (std::size_t begin = 0; begin < entries.size(); begin += kBatch) {
    const std::size_t end = std::min(begin + kBatch, entries.size());
    const bool is_one = end - begin == 1;
    if (!is_one) Code('(');
    for (std::size_t i = begin; i < end; ++i) WriteValue(*entries[i].key), WriteValue(*entries[i].value);
    Code(is_one ? 's' : 'u');
  }
}

void Pickler::OpenTuple(std::size_t count) {
  if (count > 3) Code('(');
}

void Pickler::CloseTuple(std::size_t count) {
  if (count == 0) return Code(')');  // The empty tuple is one object, without a number.
  Code(count > 3 ? 't' : 0x84 + static_cast<int>(count));
  Memoize();
}

void Pickler::Write(const Value& value, const Tuple& tuple) {
  OpenTuple(tuple.items.size());
  for (const ValuePtr& item : tuple.items) WriteValue(*item);
  CloseTuple(tuple.items.size());
  if (!tuple.items.empty()) numbers_[&value] = next_number_ - 1;
}

void Pickler::WriteIntegers(const std::vector<std::int64_t>& integers) {
  OpenTuple(integers.size());
  for (const std::int64_t integer : integers) WriteInteger(integer);
  CloseTuple(integers.size());
}

void Pickler::Write(const Value& value, const Call& call) {
  WriteValue(*call.callable);
  WriteValue(*call.arguments);
  Code(call.form == Call::Form::kReduce ? 'R' : 0x81);
  MemoizeAs(value);
  WriteItems(call.items);
  WriteEntries(call.entries);
  if (call.state) {
    WriteValue(*call.state);
    Code('b');
  }
}

}  // namespace ucp::pytorch
