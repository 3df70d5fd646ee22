// The state that a caller of the library gives, as a rank of a job holds it.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/job_state/job_state.h"
#include "runtime/save/stage.h"
#include "ucp/save.h"

namespace ucp {

struct GivenState {
  HeldState held;  // Tensors, then values.
  BoxMemories memories;
  std::string values;  // As in SaveMessage.
  std::vector<std::shared_ptr<const void>> owners;
};

// Fails (kUsage) for tensors whose positions, strides and memory do not fit, and for keys that stand twice.
llvm::Expected<GivenState> StateToHold(const StateToSave& state);

}  // namespace ucp
