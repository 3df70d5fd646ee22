// Recognises files that no output replaces, since they cannot be made again. A file is one of them by its contents, by
// its name, or by its folder.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>

namespace ucp {

// Returns why the file must not be replaced: "a torch archive", "a spec", "a file of the checkpoint in `run`"; empty
// for any other file. `path` is a regular file. Fails (kIo) if it cannot be read.
llvm::Expected<std::string> WhyPrecious(const std::string& path);

// Returns whether the file begins with these bytes; false if there are none.
llvm::Expected<bool> BeginsWith(const std::string& path, std::string_view bytes);

}  // namespace ucp
