// Two checkpoints, element by element, in bounded memory and over all threads: of each only as much is in memory at a
// time as fits the threads' chunks.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/plan/plan.h"
#include "runtime/difference/difference_sum.h"
#include "runtime/difference/pair_states.h"
#include "runtime/executor/execute.h"

namespace ucp {

// A checkpoint as ElementReader takes it.
struct ComparedCheckpoint {
  const Plan& plan;
  std::string root;
};

// Returns the least that CompareCheckpoints() takes for both together.
std::uint64_t MemoryToCompare(const Plan& a, const Plan& b, unsigned threads);

// Returns how each pair differs, in their order; the pairs have both sides, and as many elements on each. The same on
// any number of threads and in any memory. `options.memory_bytes` is for both checkpoints together; too little is an
// error with the number that would do (kUsage). All ranks of `options` call it together, with the same plans and pairs,
// and share the work; the result is rank 0's. `files` hold both checkpoints.
llvm::Expected<std::vector<Difference>> CompareCheckpoints(ReadableFileSystem& files, const ComparedCheckpoint& a,
                                                           const ComparedCheckpoint& b,
                                                           const std::vector<StatePair>& pairs,
                                                           const ExecutionOptions& options);

}  // namespace ucp
