#include "compiler/layout/name_pattern.h"

#include <array>

namespace ucp {

namespace {

constexpr std::array<bool, 256> kIsSpecial = [] {
  std::array<bool, 256> is_special = {};
  for (char c : std::string_view("()[]{}?*+-|^$\\.&~# \t\n\r\v\f")) is_special[static_cast<unsigned char>(c)] = true;
  return is_special;
}();

void AppendEscaped(std::string_view text, std::string& pattern) {
  for (char c : text) {
    if (kIsSpecial[static_cast<unsigned char>(c)]) pattern += '\\';
    pattern += c;
  }
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string PatternFor(std::string_view name) {
  std::string pattern = "^";
  AppendEscaped(name, pattern);
  return pattern + "$";
}

std::string PatternForAnyNumbers(std::string_view name) {
  std::string pattern = "^";
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    if (IsNumber(part)) {
      pattern += "\\d+";
    } else {
      AppendEscaped(part, pattern);
    }
    if (dot == std::string_view::npos) return pattern + "$";
    pattern += "\\.";
    name.remove_prefix(dot + 1);
  }
}

}  // namespace ucp
