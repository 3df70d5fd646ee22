// Text from files and command lines, made safe for one line of a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// Control characters (line breaks, escape sequences, NUL) become `\n`, `\x1b` and the like; all else stays.
std::string Printable(std::string_view text);

}  // namespace ucp
