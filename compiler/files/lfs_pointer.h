// A pointer of Git LFS: the small text that stands for a large file in a repository that was cloned without it.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// Fails (kBadData) if the file is one, with the size of the file that it stands for and how that is fetched.
[[nodiscard]] llvm::Error RefuseLfsPointer(const ReadableFile& file);

}  // namespace ucp
