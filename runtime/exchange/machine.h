// Which machine this is: what tells its files from those of the same number on another one.
#pragma once

#include <string>

namespace ucp {

// Of one running system; two containers on it have the same. Where the system does not say it, the host's name.
std::string ThisMachine();

}  // namespace ucp
