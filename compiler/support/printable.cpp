#include "compiler/support/printable.h"

#include <fmt/format.h>

namespace ucp {

std::string Printable(std::string_view text) {
  std::string printable;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      printable += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      printable += fmt::format("\\x{:02x}", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

}  // namespace ucp
