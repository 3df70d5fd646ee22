// The machines of a job, found by its ranks together.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/socket_ranks.h"
#include "runtime/save/save_messages.h"

namespace ucp {

// Processes that reach each other's writer and memory have the same: those of one system and one network. Two
// containers of one machine may have networks of their own. UCP_MACHINE in the environment is another name.
std::string NameOfThisMachine();

// All ranks call it together: `machines` are those of the ranks (NumberNodes()), and `address` is where the lowest rank
// of a machine listens (MachineListener); empty on others. The secret is one that rank 0 draws.
llvm::Expected<JobMachines> ShareMachines(Communicator& ranks, const std::vector<int>& machines,
                                          const std::string& address);

// All ranks call it together. Connects the lowest ranks of all machines, on which it returns the machines as ranks of a
// run; null elsewhere.
llvm::Expected<std::unique_ptr<SocketRanks>> MeetMachines(Communicator& ranks);

}  // namespace ucp
