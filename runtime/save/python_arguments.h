// The package's arguments as a message names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/support/user_option.h"

namespace ucp {

// `sets=`, `sets="layers=4"`. An option that the package does not take has its plain name. An OptionSpelling.
std::string PythonArgument(UserOption option, std::optional<std::string_view> value);

}  // namespace ucp
