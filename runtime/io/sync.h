// Making many files and folders durable.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/io/file_system.h"
#include "runtime/io/parallel.h"

namespace ucp {

struct PathsToSync {
  std::vector<std::string> files;
  std::vector<std::string> folders;  // Whose names are to be durable; in this order, behind the files.
};

[[nodiscard]] llvm::Error Sync(FileSystem& files, const PathsToSync& paths, const ParallelOptions& options);

}  // namespace ucp
