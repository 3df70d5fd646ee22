#include "compiler/layout/name_pattern.h"

namespace ucp {

std::string PatternFor(std::string_view name) {
  constexpr std::string_view kSpecial = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
  std::string pattern = "^";
  for (char c : name) {
    if (kSpecial.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

}  // namespace ucp
