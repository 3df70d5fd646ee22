// States of the optimizer that a conversion leaves out (--drop-state).
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/format.h"

namespace ucp {

// Takes the states out of the checkpoint. Fails with kUsage if the checkpoint has no such state, or it is the master.
[[nodiscard]] llvm::Error DropStates(const std::vector<std::string>& states, Checkpoint& checkpoint);

}  // namespace ucp
