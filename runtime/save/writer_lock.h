// The lock by which others know that a writer lives.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/descriptor.h"

namespace ucp {

// Takes a shared lock on the file, which is made if it is not there. It goes with the result, or with the process,
// whatever ends that. The file gets the number of the process, so that one that waits for an exclusive lock can name
// it. Nothing is locked where the path is empty. Fails with kIo.
llvm::Expected<Descriptor> LockShared(const std::string& path);

}  // namespace ucp
