// A question to a server over HTTP, without encryption: JSON there and back, with a connection of its own.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>

#include "runtime/comm/tcp.h"

namespace ucp {

struct HttpServer {
  std::string host;
  std::string port;
  TcpAddresses addresses;  // Those of `host` and `port`.
};

// Returns the object that the server answers with. Fails with kIo if it cannot be reached, has not answered after
// `seconds`, or refuses. The time counts from the call on, connecting included.
llvm::Expected<llvm::json::Object> PostJson(const HttpServer& server, const std::string& path, llvm::json::Object body,
                                            double seconds);

}  // namespace ucp
