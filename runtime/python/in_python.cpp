#include "runtime/python/in_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ucp {
namespace {

// What the programs' options are called here.
struct Argument {
  std::string_view option;
  std::string_view name;
};
constexpr Argument kArguments[] = {
    {"--replicas=trust", "verify=False"},
    {"--prefer-rank", "prefer_rank="},
    {"--drop-state", "drop_states="},
    {"--ds-config", "ds_config="},
    {"--config", "config="},
    {"--memory", "memory="},
    {"--threads", "threads="},
    {"--unused", "unused="},
    {"--spec", "spec="},
    {"--rank", "rank="},
    {"--set", "sets="},
};

// The word behind an option, if it is its value: `layers=4`, `'has x=true'`, FILE, and for some whatever it is.
std::string_view ValueBehind(std::string_view text, bool takes_any_word) {
  if (!text.starts_with(' ')) return "";
  text.remove_prefix(1);
  const bool is_quoted = text.starts_with('\'');
  const std::size_t end = is_quoted ? text.find('\'', 1) : text.find_first_of(" ,;:`)");
  const std::string_view word = text.substr(0, is_quoted && end != std::string_view::npos ? end + 1 : end);
  const bool is_placeholder = word.size() > 1 && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == word.npos;
  const bool is_value = takes_any_word || is_quoted || is_placeholder || word.find('=') != word.npos;
  return is_value ? word : "";
}

// Not a part of a path or of a tensor's name.
bool IsWordAlone(std::string_view before, std::string_view behind) {
  return (before.empty() || std::string_view(" (`\n").find(before.back()) != before.npos) &&
         (behind.empty() || std::string_view(" ,;:.)`\n").find(behind.front()) != behind.npos);
}

}  // namespace

std::string InPython(std::string_view text) {
  std::string said;
  while (!text.empty()) {
    const auto* known = std::find_if(std::begin(kArguments), std::end(kArguments), [&](const Argument& argument) {
      return text.starts_with(argument.option) && IsWordAlone(said, text.substr(argument.option.size()));
    });
    if (known == std::end(kArguments)) {
      said += text.front();
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(known->option.size());
    said += known->name;
    const std::string_view value = ValueBehind(text, known->option == "--drop-state");
    if (value.empty()) continue;
    text.remove_prefix(1 + value.size());
    const bool is_quoted = value.starts_with('\'');
    said += fmt::format("\"{}\"", is_quoted ? value.substr(1, value.size() - 2) : value);
  }
  return said;
}

}  // namespace ucp
