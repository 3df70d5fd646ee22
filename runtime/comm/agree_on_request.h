// Ranks that were started with different words must not work together.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/comm/communicator.h"

namespace ucp {

// All ranks call it, each with its request, in words for a message: "`folder` as `universal`". Fails (kUsage) on every
// rank, naming one that says something else than rank 0.
[[nodiscard]] llvm::Error AgreeOnRequest(Communicator& ranks, const std::string& request);

}  // namespace ucp
