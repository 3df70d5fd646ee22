// Files that no output replaces, since they cannot be made again. A file is one by what is in it, by its name, or by
// where it is.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>

namespace ucp {

// "a torch archive", "a spec", "a file of the checkpoint in `run`"; empty for any other. `path` is a regular file.
// Fails (kIo) where it cannot be read.
llvm::Expected<std::string> WhyPrecious(const std::string& path);

// Returns whether the file begins with these bytes; no file does with none.
llvm::Expected<bool> BeginsWith(const std::string& path, std::string_view bytes);

}  // namespace ucp
