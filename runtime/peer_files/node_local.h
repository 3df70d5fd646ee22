// Data on the disks of nodes, of which each sees only its own.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "runtime/comm/communicator.h"
#include "runtime/peer_files/files_of_all_ranks.h"

namespace ucp {

struct NodeLocal {
  bool source = false;
  bool destination = false;
};

// Fails (kUsage) for one rank alone.
[[nodiscard]] llvm::Error CheckNodeLocal(const NodeLocal& node_local, const Communicator& ranks);

// Returns the source at `path`, of all ranks together if each node sees only a part of it; else null, and rank 0 sees
// all of it. All ranks call it together. Fails as CheckNodeLocal(), and (kBadData) for a source of which a part is
// missing.
llvm::Expected<std::unique_ptr<FilesOfAllRanks>> NodesOfSource(ReadableFileSystem& files, const NodeLocal& node_local,
                                                               const std::string& path, Communicator& ranks);

}  // namespace ucp
