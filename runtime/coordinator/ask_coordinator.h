// Questions of a person to a coordinator: a connection, one line, and its answer.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <optional>
#include <string>

#include "runtime/coordinator/messages.h"
#include "runtime/coordinator/tls.h"

namespace ucp {

// The secret of a file, without blanks at its end; empty for an empty path. Fails with kUsage if it is too short.
llvm::Expected<std::string> ReadSecret(const std::string& path);

// How a coordinator is spoken to.
struct CoordinatorAccess {
  std::string secret;
  std::optional<TlsSettings> tls;  // Nothing: messages are not encrypted.
};

// `endpoint`: "head:29411". Fails with kUsage for an endpoint of another form and for what the coordinator refuses, and
// with kIo if it cannot be reached or does not know the secret, and with kBadData if its TLS is wrong. A long log comes
// in several answers, which are joined.
llvm::Expected<llvm::json::Object> AskCoordinator(const std::string& endpoint, const CoordinatorAccess& access,
                                                  PersonRequest request);

}  // namespace ucp
