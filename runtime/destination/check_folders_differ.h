// Whether the nodes of a destination in parts have folders of their own. Two nodes that see one folder would both take
// it for theirs: devices and inodes do not tell, since nodes count devices differently, and the roots of two disks have
// one number. So the lowest rank of each part makes a file of one name, `.NAME.ucp-node`, for a moment; where two see
// one folder, one of them finds the other's.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/commit/commit.h"
#include "runtime/engine/target_parts.h"

namespace ucp {

// All ranks call it together, before anything is made. Fails on all of them (kUsage) with the ranks that see one
// folder. The commit protocol reports a folder in which no file can be made.
[[nodiscard]] llvm::Error CheckFoldersDiffer(FileSystem& files, const std::string& destination,
                                             const TargetParts& parts, Communicator& ranks);

}  // namespace ucp
