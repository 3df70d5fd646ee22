// The programs' sentences in the words of the package, whose arguments have other names than their options.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// `--set layers=4` is sets="layers=4". Parts of paths and of names stay as they are.
std::string InPython(std::string_view text);

}  // namespace ucp
