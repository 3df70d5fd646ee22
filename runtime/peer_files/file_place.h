// Where one file of a source lies, if every node sees other files.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp {

struct FilePlace {
  FileStatus status;         // As the first of the holders sees it.
  std::vector<int> holders;  // The ranks that see this file, ascending; empty if it is not a file.
};

// One rank's view.
struct PathStatus {
  int rank = 0;
  FileStatus status;
};

// Returns the views of one path by all ranks, put together; those that see nothing may be left out. `seen` is sorted by
// rank. Several ranks may see the same file, or on nodes of their own one of the same name: then the lowest rank's
// counts, and the others must have its size (kBadData). `node_of_rank` tells nodes apart. `noun`: Communicator::noun().
llvm::Expected<FilePlace> PlaceOf(const std::string& path, const std::vector<PathStatus>& seen,
                                  const std::vector<int>& node_of_rank, const char* noun);

}  // namespace ucp
