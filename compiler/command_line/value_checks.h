// Checks of options' values, for CLI::Option::check(): the fault of a value, as it stands behind the option's name. The
// library itself takes -1 for the largest number, and nan for one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ucp {

using ValueCheck = std::function<std::string(const std::string& text)>;

ValueCheck WholeNumber(std::int64_t least, std::int64_t most);
ValueCheck SomeSeconds();  // Up to a day of them.
ValueCheck FolderName();   // Of one folder in another.

}  // namespace ucp
