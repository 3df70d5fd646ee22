// Memory that a program took before it moves anything, to describe and to plan, also counts under --memory.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>

#include "compiler/plan/plan.h"
#include "runtime/executor/execute.h"
#include "runtime/peer_files/files_of_all_ranks.h"

namespace ucp {

// The least that moving elements takes.
struct MemoryToMove {
  std::uint64_t bytes = 0;            // The program itself (kProgramBytes), tables and buffers.
  std::uint64_t plan_bytes = 0;       // The plans, which are among the tables and are there already.
  std::uint64_t set_aside_bytes = 0;  // For something else.
  std::uint64_t buffer_bytes = 0;     // Bytes that buffers take beyond the least, since there are as many.
};

// Takes the memory that this process holds off `execution.memory_bytes`, which is for the whole process, and also
// leaves the bytes in `to_move`; and takes those that it sets aside. Fails (kUsage), with a size that would do, if so
// much was taken already or if the rest is too little; or (kMemory) if the system does not give the memory that moving
// takes. For programs alone: all of the process is counted. Call when the plan is there, on every rank, and before
// anything is written.
[[nodiscard]] llvm::Error CountResidentMemory(const MemoryToMove& to_move, ExecutionOptions& execution);

// Likewise for who divides the rest by DivideMemory(); `nodes` may be null, and else take memory for their answers.
[[nodiscard]] llvm::Error CountResidentMemory(const Plan& plan, const FilesOfAllRanks* nodes,
                                              ExecutionOptions& execution);

}  // namespace ucp
