// The programs' sentences in the words of this package.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// Names arguments where the programs name options: `--set layers=4` is sets="layers=4".
std::string InPython(std::string_view text);

}  // namespace ucp
