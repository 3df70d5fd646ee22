// Files that both programs write, beside checkpoints: whole or not there, or as they grow.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "compiler/command_line/output_place.h"

namespace ucp {

// Under another name in the same folder first, and then renamed; a stream gets the bytes as they are. A file that has
// come to be there since it was placed is not replaced. Fails with kIo, and kUsage for such a file.
[[nodiscard]] llvm::Error WriteOutput(const OutputPlace& place, std::string_view bytes);

// Opens a file that is written as it grows, from the beginning on; standard output is `stdout`. Fails likewise.
llvm::Expected<std::FILE*> OpenOutput(const OutputPlace& place);

}  // namespace ucp
