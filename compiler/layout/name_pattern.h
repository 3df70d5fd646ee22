// Regular expressions in which DeepSpeed's metadata names parameters.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// "^a\.b$": the regular expression that matches this name alone, as Python's re.escape writes it.
std::string PatternFor(std::string_view name);

}  // namespace ucp
