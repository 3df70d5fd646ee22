// Connections between machines, as the operating system makes them. machine_socket.h says how machines of a job use
// them.
#pragma once

#include <llvm/Support/Error.h>
#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/files/descriptor.h"

namespace ucp {

using TcpAddresses = std::shared_ptr<const addrinfo>;  // At least one.

// A socket with a port; 0: any that is free. For all networks, or for this machine alone. Fails with kIo.
llvm::Expected<Descriptor> BindTcp(std::uint16_t port, bool only_here);

// Of a host. It takes as long as the servers of names take. Fails with kIo.
llvm::Expected<TcpAddresses> FindTcp(const std::string& host, const std::string& port);

// To the first address that answers, for up to 3 s each, and for `seconds` in all, of which each address has an equal
// part of what is left. Fails with kIo.
llvm::Expected<Descriptor> ConnectTcp(const TcpAddresses& addresses, double seconds);

// The next caller that waits at a listening socket. Fails with kIo if this process can take none, as when it has too
// many open files; the caller then waits on.
llvm::Expected<Descriptor> AcceptTcp(int listener);

// To the first address of the host that answers, for up to 3 s each. Fails with kIo.
llvm::Expected<Descriptor> ConnectTcp(const std::string& host, const std::string& port);

// Notices after 25 s that the other machine has lost its power, and sends short messages at once. Fails with kIo.
[[nodiscard]] llvm::Error SetUpTcp(int socket);

}  // namespace ucp
