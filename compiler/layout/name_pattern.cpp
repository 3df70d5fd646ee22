#include "compiler/layout/name_pattern.h"

namespace ucp {

namespace {

std::string Escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
  std::string escaped;
  for (char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string PatternFor(std::string_view name) { return "^" + Escaped(name) + "$"; }

std::string PatternForAnyNumbers(std::string_view name) {
  std::string pattern = "^";
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    pattern += IsNumber(part) ? "\\d+" : Escaped(part);
    if (dot == std::string_view::npos) return pattern + "$";
    pattern += "\\.";
    name.remove_prefix(dot + 1);
  }
}

}  // namespace ucp
