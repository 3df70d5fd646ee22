// Paths that stand in files, and may be written by anybody.
#pragma once

#include <string_view>

namespace ucp {

// "a/b.pt": relative, without empty, `.` or `..` parts and without bytes that end a path.
bool StaysInFolder(std::string_view path);

}  // namespace ucp
