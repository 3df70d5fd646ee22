// Decides which files a conversion may replace, and where it may write.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// --force is for the result of an earlier run: it does not delete folders of another kind. And a source must not get a
// folder inside it that was not there. Fails with kUsage, and with kIo where it cannot be told.
[[nodiscard]] llvm::Error CheckDestination(ReadableFileSystem& files, const std::string& source_folder,
                                           const std::string& destination, bool force);

// A folder is replaced as a whole: fails (kUsage) if a file in it is not a part of the checkpoint, such as another
// tag's, a log or a script, which would be lost.
[[nodiscard]] llvm::Error CheckNothingElse(ReadableFileSystem& files, const std::string& destination);

}  // namespace ucp
