// What a target cannot have of Muon yet.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/formats/deepspeed/write/options.h"

namespace ucp::deepspeed {

// The engine would take parts of Muon's momentum for whole matrices (muon_momentum.h) and say nothing. Fails with
// kUnsupported for a group of Muon's at the stages that keep whole matrices.
[[nodiscard]] llvm::Error CheckMuonIsWritten(const TrainingState& training, const WriteOptions& options);

}  // namespace ucp::deepspeed
