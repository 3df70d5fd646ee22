// Finds the ranks that share a machine, and so its disks, its memory and its way to the storage.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace ucp {

// Returns a name of this running system; two containers on it have the same.
std::string ThisMachine();

// Returns the node of each rank: numbers from 0 on, in the order of their lowest ranks. All ranks call it together.
llvm::Expected<std::vector<int>> NodesOfRanks(Communicator& ranks);

// Does the same for machines that ranks have named.
std::vector<int> NumberNodes(const std::vector<std::string>& machines);

}  // namespace ucp
