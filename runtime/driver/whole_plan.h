// The plan that gathers every tensor of a checkpoint whole, each state in a file of its own: for those who look at
// elements whichever way ranks cut them, and write none.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/driver/source_phase.h"
#include "compiler/plan/plan.h"
#include "compiler/planner/planner.h"

namespace ucp {

// The target's only write of a tensor holds all of it, from the first byte of its files on. The masters and the
// optimizer's states, or else the weight; what a mean or a scale asks for is in it.
llvm::Expected<Plan> PlanOntoWhole(const SourcePhase& phase, ReplicaPolicy replicas);

}  // namespace ucp
