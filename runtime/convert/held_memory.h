// What a program took before it moves anything, describing and planning, is under --memory, too.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"
#include "runtime/exchange/files_of_all_ranks.h"
#include "runtime/executor/execute.h"

namespace ucp {

// Takes what this process holds off `execution.memory_bytes`, which is for the whole process, and leaves what
// DivideMemory() sets aside for the program itself; and what `nodes` take for their answers, unless it is null. Fails
// (kUsage), with a size that would do, if so much was taken already or if the rest is too little. For programs alone:
// all of the process is counted. Call when the plan is there, on every rank, and before anything is written.
[[nodiscard]] llvm::Error CountHeldMemory(const Plan& plan, const FilesOfAllRanks* nodes, ExecutionOptions& execution);

}  // namespace ucp
