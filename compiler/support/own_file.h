// Where this code is on disk: files that are installed with it lie at known places from there.
#pragma once

#include <filesystem>

namespace ucp {

// Returns the program, or the library that holds this code: the Python package's module is not a part of a program of
// ours. It is empty if the system does not say it.
std::filesystem::path OwnFile();

}  // namespace ucp
