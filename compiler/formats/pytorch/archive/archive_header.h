// The parts of an archive that describing it reads: its directory, its pickle, and the small tensors in it.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/files/readable_file_system.h"

namespace ucp::pytorch {

// Reads it. Whoever wants to know what that is gives a file that notes it.
[[nodiscard]] llvm::Error ReadArchiveHeader(const ReadableFile& file);

}  // namespace ucp::pytorch
