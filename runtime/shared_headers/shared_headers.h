// Headers that all ranks read together: rank 0 describes the source alone, and where it opens one file of many the
// others read their shares of these files' headers for it. So of a checkpoint of thousands of files each is opened by
// one rank.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include "compiler/files/readable_file_system.h"
#include "runtime/comm/communicator.h"

namespace ucp {

// All ranks call it. Rank 0 runs `work` with files that others help to read, and has its outcome; the others serve it
// until it is done. Headers that nobody has read before, rank 0 reads itself, so that an error is the same as without
// sharing.
[[nodiscard]] llvm::Error WithSharedHeaders(ReadableFileSystem& files, Communicator& ranks,
                                            llvm::function_ref<llvm::Error(ReadableFileSystem&)> work);

}  // namespace ucp
