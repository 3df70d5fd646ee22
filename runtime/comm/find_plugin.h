// Libraries that are opened when they are needed, and installed beside the program or library that opens them.
#pragma once

#include <string>

namespace ucp {

// Returns the path of "ucp_mpi.so"; empty if it is not there, which means that this was built without it.
std::string FindPlugin(const std::string& name);

}  // namespace ucp
