// Cutting a save into waves (StagingWaves), for ranks that stage in less memory than their part of the state takes.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>

#include "compiler/plan/plan.h"
#include "runtime/job_state/job_state.h"

namespace ucp {

// Gives the boxes of `joined` other places, so that no rank stages more than `most_bytes` at a time; 0: as much as
// there is. `plan` is that of a save of this state. Boxes that a range of the target is made of are in one wave, and
// small ones that no range needs in the first, because planning may read them. Fails (kUsage) where boxes of one wave
// are more than `most_bytes` of a rank; the message names the largest such wave.
[[nodiscard]] llvm::Error CutIntoWaves(const Plan& plan, std::uint64_t most_bytes, JoinedState& joined);

}  // namespace ucp
