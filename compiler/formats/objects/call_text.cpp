#include "compiler/formats/objects/call_text.h"

#include <fmt/format.h>

#include "compiler/formats/objects/known_objects.h"
#include "compiler/support/printable.h"

namespace ucp::objects {
namespace {

using pytorch::Call;
using pytorch::Entry;
using pytorch::Global;
using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::size_t kLongest = 160;
constexpr int kDeepest = 32;

// Stops where the text is full or deep, so that neither size nor nesting of a value matters.
class ShortPrinter {
 public:
  std::string Print(const Value& value) {
    Append(value);
    return Finish();
  }

  std::string PrintCall(const Value& value) {
    const auto* call = value.As<Call>();
    const auto* global = value.As<Global>();
    if (call != nullptr) {
      AppendCall(*call);
    } else if (global != nullptr) {
      text_ += "import " + global->module;
    } else {
      Append(value);
    }
    return Finish();
  }

 private:
  bool is_full() const { return text_.size() >= kLongest; }

  std::string Finish() {
    if (!is_full()) return Printable(text_);
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) --end;  // Not within a character.
    return Printable(std::string_view(text_).substr(0, end)) + "…";
  }

  void Append(const Value& value) {
    if (is_full()) return;
    if (depth_ == kDeepest) {
      text_ += "...";
      return;
    }
    ++depth_;
    value.Visit([this](const auto& content) { (*this)(content); });
    --depth_;
  }

  void AppendQuoted(std::string_view text) {
    text_ += fmt::format("'{}", text.substr(0, kLongest));
    if (!is_full()) text_ += '\'';
  }

  void AppendItems(std::string_view open, const std::vector<ValuePtr>& items, std::string_view close) {
    text_ += open;
    for (std::size_t i = 0; i < items.size() && !is_full(); ++i) {
      if (i > 0) text_ += ", ";
      Append(*items[i]);
    }
    text_ += close;
  }

  void AppendCall(const Call& call) {
    const auto* global = call.callable->As<Global>();
    if (global != nullptr) {
      text_ += NameOf(*global);
    } else {
      Append(*call.callable);
    }
    if (call.form == Call::Form::kNewObject) text_ += ".__new__";
    if (const auto* arguments = call.arguments->As<pytorch::Tuple>()) AppendItems("(", arguments->items, ")");
  }

  void operator()(const pytorch::None&) { text_ += "None"; }
  void operator()(bool value) { text_ += value ? "True" : "False"; }
  void operator()(std::int64_t value) { text_ += fmt::format("{}", value); }
  void operator()(const pytorch::BigInteger& value) {
    text_ += fmt::format("an integer of {} bytes", value.bytes.size());
  }
  void operator()(double value) { text_ += fmt::format("{}", value); }
  void operator()(const pytorch::Text& text) { AppendQuoted(text.utf8); }
  void operator()(const pytorch::Bytes& bytes) {
    text_ += 'b';
    AppendQuoted(bytes.bytes);
  }
  void operator()(const pytorch::List& list) { AppendItems("[", list.items, "]"); }
  void operator()(const pytorch::Tuple& tuple) { AppendItems("(", tuple.items, ")"); }
  void operator()(const pytorch::Dict& dict) {
    text_ += '{';
    for (std::size_t i = 0; i < dict.entries.size() && !is_full(); ++i) {
      if (i > 0) text_ += ", ";
      Append(*dict.entries[i].key);
      text_ += ": ";
      Append(*dict.entries[i].value);
    }
    text_ += '}';
  }
  void operator()(const Global& global) { text_ += NameOf(global); }
  void operator()(const Call& call) { AppendCall(call); }
  void operator()(const pytorch::Tensor&) { text_ += "tensor"; }
  void operator()(const pytorch::StorageReference&) { text_ += "storage"; }

  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string ObjectName(const Value& value) {
  const auto* call = value.As<Call>();
  const Value& named = call == nullptr ? value : *call->callable;
  if (const auto* global = named.As<Global>()) return Printable(NameOf(*global));
  if (const auto* tensor = named.As<pytorch::Tensor>(); tensor != nullptr && tensor->python_class) {
    return ShortText(*tensor->python_class);
  }
  return ShortText(named);
}

std::string CallText(const Value& value) { return ShortPrinter().PrintCall(value); }

std::string ShortText(const Value& value) { return ShortPrinter().Print(value); }

}  // namespace ucp::objects
