// The options of both programs as a message names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/support/user_option.h"

namespace ucp {

// `--set`, `--set layers=4`, `--set 'has "bias"=true'`: as a shell would take it. An OptionSpelling.
std::string CommandLineOption(UserOption option, std::optional<std::string_view> value);

}  // namespace ucp
