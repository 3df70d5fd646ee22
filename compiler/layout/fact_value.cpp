#include "compiler/layout/fact_value.h"

#include <fmt/format.h>

#include <charconv>

namespace ucp {
namespace {

constexpr std::size_t kShownElements = 8;
constexpr std::size_t kShownBytes = 60;

struct KindName {
  std::string_view operator()(bool) const { return "true or false"; }
  std::string_view operator()(std::int64_t) const { return "a number"; }
  std::string_view operator()(double) const { return "a fraction"; }
  std::string_view operator()(const std::string&) const { return "a text"; }
  std::string_view operator()(const std::vector<FactValue>&) const { return "a list"; }
};

struct ValueText {
  std::string operator()(bool boolean) const { return boolean ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(const std::string& text) const {
    if (text.size() <= kShownBytes) return fmt::format("\"{}\"", text);
    return fmt::format("\"{}…\"", std::string_view(text).substr(0, kShownBytes));
  }
  std::string operator()(const std::vector<FactValue>& list) const {
    std::string text;
    for (std::size_t i = 0; i < list.size() && i < kShownElements; ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ", ", TextOf(list[i]));
    }
    if (list.size() <= kShownElements) return fmt::format("[{}]", text);
    return fmt::format("[{}, …] of {} elements", text, list.size());
  }
};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// An element of a list, with what stands behind it.
std::string_view TakeElement(std::string_view& rest) {
  std::size_t depth = 0;
  bool quoted = false;
  std::size_t end = 0;
  for (; end < rest.size(); ++end) {
    char c = rest[end];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',' && depth == 0) break;
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
  }
  std::string_view element = rest.substr(0, end);
  rest.remove_prefix(end);
  return element;
}

constexpr int kMaxListDepth = 2;  // A list of lists is as deep as any construct looks.

std::optional<FactValue> Parse(std::string_view text, int depth);

std::optional<FactValue> ParseList(std::string_view inside, int depth) {
  std::vector<FactValue> list;
  if (depth == kMaxListDepth) return std::nullopt;
  if (Trim(inside).empty()) return FactValue{std::move(list)};
  for (std::string_view rest = inside;; rest.remove_prefix(1)) {
    auto element = Parse(TakeElement(rest), depth + 1);
    if (!element) return std::nullopt;
    list.push_back(std::move(*element));
    if (rest.empty()) return FactValue{std::move(list)};
  }
}

std::optional<FactValue> Parse(std::string_view text, int depth) {
  text = Trim(text);
  if (text == "true" || text == "false") return FactValue{text == "true"};
  if (text.starts_with("[") != text.ends_with("]") || text.empty()) return std::nullopt;
  if (text.starts_with("[")) return ParseList(text.substr(1, text.size() - 2), depth);
  if (text.starts_with("\"")) {
    bool closed = text.size() > 1 && text.find('"', 1) == text.size() - 1;
    return closed ? std::optional(FactValue{std::string(text.substr(1, text.size() - 2))}) : std::nullopt;
  }
  std::int64_t number = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && rest == text.data() + text.size()) return FactValue{number};
  if (error == std::errc::result_out_of_range || text.find_first_of("\",[]") != text.npos) return std::nullopt;
  return FactValue{std::string(text)};
}

}  // namespace

std::string_view KindOf(const FactValue& value) { return std::visit(KindName{}, value.value); }

std::optional<FactValue> ParseFactValue(std::string_view text) { return Parse(text, 0); }

std::string TextOf(const FactValue& value) { return std::visit(ValueText{}, value.value); }

std::string SettingOf(const FactValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return fmt::format("\"{}\"", *text);
  const auto* list = std::get_if<std::vector<FactValue>>(&value.value);
  if (list == nullptr) return TextOf(value);
  std::string items;
  for (const FactValue& item : *list) items += (items.empty() ? "" : ",") + SettingOf(item);
  return "[" + items + "]";
}

}  // namespace ucp
