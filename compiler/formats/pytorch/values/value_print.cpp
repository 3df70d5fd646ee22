#include <fmt/format.h>
#include <llvm/ADT/DenseMap.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_walk.h"
#include "compiler/support/checksum.h"

namespace ucp::pytorch {
namespace {

// Long contents are cut and told apart by their hash: a small tree may name one of them very often.
constexpr std::size_t kLongestShown = 400;

std::string Ending(std::string_view content) {
  return content.size() <= kLongestShown ? "" : fmt::format("... {} bytes {}", content.size(), ContentHash(content));
}

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kLongestShown)) {
    if (c == '\'' || c == '\\') {
      quoted += '\\', quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '\'' + Ending(text);
}

std::string Hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes.substr(0, kLongestShown))
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text + Ending(bytes);
}

// Numbers, texts, bytes and class names have no identity that matters; neither has the empty tuple.
bool HasIdentity(const Value& value) {
  if (const auto* tuple = value.As<Tuple>()) return !tuple->items.empty();
  return value.As<List>() || value.As<Dict>() || value.As<Call>() || value.As<Tensor>();
}

class ValuePrinter {
 public:
  std::string Print(const Value& root) {
    FindShared(root);
    Append(root);
    return std::move(text_);
  }

 private:
  void FindShared(const Value& root);
  void Append(const Value& value);

  void operator()(const None&) { text_ += "None"; }
  void operator()(bool value) { text_ += value ? "True" : "False"; }
  void operator()(std::int64_t value) { text_ += fmt::format("{}", value); }
  void operator()(const BigInteger& value) {
    text_ += fmt::format("int(0x{}, little-endian)", Hexadecimal(value.bytes));
  }
  void operator()(double value) { text_ += fmt::format("{:#}", value); }
  void operator()(const Text& text) { text_ += Quoted(text.utf8); }
  void operator()(const Bytes& bytes) { text_ += fmt::format("bytes({})", Hexadecimal(bytes.bytes)); }
  void operator()(const List& list) { AppendItems('[', list.items, ']'); }
  void operator()(const Tuple& tuple) { AppendItems('(', tuple.items, ')'); }
  void operator()(const Dict& dict) { AppendEntries(dict.entries); }
  void operator()(const Global& global) { text_ += fmt::format("{}.{}", global.module, global.name); }
  void operator()(const Call& call);
  void operator()(const Tensor& tensor);
  void operator()(const StorageReference& reference) { Append(*reference.storage); }

  void Append(const Storage& storage) {
    text_ += fmt::format("{} {}{} {} on {}", Quoted(storage.key), storage.untyped ? "untyped " : "",
                         Name(storage.dtype), storage.elements, storage.location);
  }
  void AppendItems(char open, const std::vector<ValuePtr>& items, char close);
  void AppendEntries(const std::vector<Entry>& entries);

  std::string text_;
  llvm::DenseMap<const Value*, int> labels_;  // 0 until printed.
  int next_label_ = 1;
};

void ValuePrinter::FindShared(const Value& root) {
  llvm::DenseMap<const Value*, int> counts;
  std::vector<const Value*> visits = {&root};
  while (!visits.empty()) {
    const Value* value = visits.back();
    visits.pop_back();
    if (!HasIdentity(*value)) continue;
    const int count = ++counts[value];
    if (count == 1) AppendChildren(*value, visits);
    if (count == 2) labels_[value] = 0;
  }
}

void ValuePrinter::Append(const Value& value) {
  if (const auto label = labels_.find(&value); label != labels_.end()) {
    if (label->second != 0) {
      text_ += fmt::format("*{}", label->second);
      return;
    }
    label->second = next_label_++;
    text_ += fmt::format("&{} ", label->second);
  }
  value.Visit([this](const auto& content) { (*this)(content); });
}

void ValuePrinter::AppendItems(char open, const std::vector<ValuePtr>& items, char close) {
  text_ += open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text_ += ", ";
    Append(*items[i]);
  }
  text_ += close;
}

void ValuePrinter::AppendEntries(const std::vector<Entry>& entries) {
  text_ += '{';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) text_ += ", ";
    Append(*entries[i].key);
    text_ += ": ";
    Append(*entries[i].value);
  }
  text_ += '}';
}

void ValuePrinter::operator()(const Call& call) {
  if (call.form == Call::Form::kNewObject) text_ += "new ";
  Append(*call.callable);
  Append(*call.arguments);
  if (!call.items.empty()) AppendItems('[', call.items, ']');
  if (!call.entries.empty()) AppendEntries(call.entries);
  if (!call.state) return;
  text_ += " with ";
  Append(*call.state);
}

void ValuePrinter::operator()(const Tensor& tensor) {
  text_ += fmt::format("{}<{}[{}]", tensor.is_parameter ? "parameter" : "tensor", Name(tensor.dtype),
                       fmt::join(tensor.sizes, ","));
  if (tensor.strides != ContiguousStrides(tensor.sizes))
    text_ += fmt::format(" strides [{}]", fmt::join(tensor.strides, ","));
  text_ += fmt::format(" at {} of ", tensor.offset);
  Append(*tensor.storage);
  if (tensor.requires_grad) text_ += " requires_grad";
  text_ += '>';
  if (tensor.python_class) {
    text_ += " as ";
    Append(*tensor.python_class);
  }
  if (tensor.attributes) {
    text_ += " with ";
    Append(*tensor.attributes);
  }
}

}  // namespace

std::string Print(const Value& value) { return ValuePrinter().Print(value); }

}  // namespace ucp::pytorch
