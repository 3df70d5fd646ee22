// Files that the compiler writes: whole or not there.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

namespace ucp {

// Writes under another name beside `path` first, and renames. `what` names it in the message: "the plan". Fails with
// kIo.
[[nodiscard]] llvm::Error WriteFileWhole(const std::string& path, const std::string& bytes, const std::string& what);

}  // namespace ucp
