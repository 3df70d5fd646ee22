// Replicas: boxes that several ranks hold, whose elements a save can compare before it writes anything.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <vector>

#include "compiler/support/parallel.h"
#include "runtime/digest/unit_sum.h"
#include "runtime/job_state/job_state.h"
#include "runtime/save/stage.h"

namespace ucp {

// The sums of the elements of boxes, by their places in each box. The memory is valid.
llvm::Expected<std::vector<SumLanes>> SumsOfBoxes(std::span<const BoxMemory* const> boxes,
                                                  const ParallelOptions& options);

// The sums of `replicas`, which are boxes of a rank's `state`. Fails (kUnsupported) for one without an address.
llvm::Expected<std::vector<SumLanes>> SumsOfReplicas(std::span<const ReplicatedBox> replicas, const HeldState& state,
                                                     const BoxMemories& memories, const ParallelOptions& options);

// `sums` are those of each rank's RankShare::replicas. Fails (kBadData) where two holders of a box have other elements;
// the message names the tensor, the box and the ranks.
[[nodiscard]] llvm::Error CompareReplicas(const JoinedState& state, std::span<const std::vector<SumLanes>> sums);

}  // namespace ucp
