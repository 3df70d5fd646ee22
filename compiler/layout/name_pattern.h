// Regular expressions in which DeepSpeed's metadata names parameters.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// "^a\.b$": the regular expression that matches this name alone, as Python's re.escape writes it.
std::string PatternFor(std::string_view name);

// "^a\.\d+\.b$" for "a.7.b": the one that matches all names which differ from this one in numbers between dots alone.
std::string PatternForAnyNumbers(std::string_view name);

}  // namespace ucp
