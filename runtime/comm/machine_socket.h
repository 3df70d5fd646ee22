// Sockets between the machines of a job. A machine listens at a port of its own, and says under which addresses it can
// be reached. Both sides of a new connection prove to each other that they know the secret of the job, which is never
// sent itself; what follows is not encrypted.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/descriptor.h"
#include "runtime/comm/message_socket.h"

namespace ucp {

struct MachineListener {
  Descriptor socket = Descriptor(-1);
  std::string address;  // "40123 10.0.0.3 fd00::3": the port, and the addresses of this machine.
};

// At a free port, for all networks. UCP_HOST in the environment names the address to give out, if it is to be one
// alone.
llvm::Expected<MachineListener> ListenToMachines();

// 32 random bytes.
llvm::Expected<std::string> NewSecret();

// The reason for a connection, as both sides agree on it: numbers.
struct Purpose {
  std::uint64_t kind = 0;
  std::uint64_t number = 0;
};

// Tries all addresses for `seconds`, again and again. Fails with kIo, naming them, if nobody who knows the secret
// answers.
llvm::Expected<MessageSocket> ConnectToMachine(std::string_view address, std::string_view secret, Purpose purpose,
                                               double seconds);

struct AcceptedMachine {
  Purpose purpose;
  MessageSocket socket;
};
// Fails with kIo if the caller (AcceptTcp()) does not know the secret.
llvm::Expected<AcceptedMachine> AcceptMachine(Descriptor caller, std::string_view secret);

}  // namespace ucp
