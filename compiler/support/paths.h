// Paths that stand in files, and may be written by anybody; and paths that a user gives.
#pragma once

#include <llvm/Support/Error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace ucp {

// "a/b.pt": relative, without empty, `.` or `..` parts and without bytes that end a path.
bool StaysInFolder(std::string_view path);

// Returns the path from the root of the file system, without `.` and `..` and with no look at links. Fails (kUsage) for
// a relative path where the working directory is gone.
llvm::Expected<std::filesystem::path> AbsolutePath(const std::string& path);

}  // namespace ucp
