// The connections of a job's machines, each with each: a machine goes to those of lower numbers, and those of higher
// ones come to it.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/descriptor.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/socket_ranks.h"

namespace ucp {

// All machines call it together, each with its own number in `purpose` and the socket at which it listens
// (MachineListener); `addresses` are those of all. Fails (kIo) if the others do not come within so many seconds.
llvm::Expected<std::unique_ptr<SocketRanks>> ConnectMachines(Purpose purpose, const std::vector<std::string>& addresses,
                                                             std::string_view secret, const Descriptor& listener,
                                                             double seconds);

}  // namespace ucp
