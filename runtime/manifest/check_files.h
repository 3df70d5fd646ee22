// The files of a checkpoint against its manifest.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/parallel.h"
#include "runtime/manifest/manifest.h"

namespace ucp {

// Every file is read once, `window_bytes` at a time in each thread. The result is a sentence for each file that is
// missing, of another size, or changed since it was written, sorted by path. Fails only if something cannot be read.
llvm::Expected<std::vector<std::string>> CheckFiles(ReadableFileSystem& files, const std::string& root,
                                                    const Manifest& manifest, std::uint64_t window_bytes,
                                                    const ParallelOptions& options);

}  // namespace ucp
