// A path that no format knows: what it is, as far as its names and first bytes say, and what to do instead.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// Always fails (kUnsupported, or kBadData for a file that stands for another), in one sentence.
[[nodiscard]] llvm::Error RefuseUnknown(ReadableFileSystem& files, const std::string& path);

}  // namespace ucp
