// Gives the plan of rank 0 to all ranks: each gets the part that it needs to fill its own memory.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/load_plan/load_plan.h"

namespace ucp {

// The records that a rank loads.
struct LoadedPart {
  int rank = 0;                   // Of the target's job.
  std::vector<RecordId> records;  // Ascending, as the files.
  std::vector<FileId> files;      // With their ready-made bytes.
  std::string note = {};          // For this rank.
};

struct SharedLoad {
  LoadPlan load;
  std::string note;
};

// Rank 0 gives its verified plan, and `parts` by rank; others give anything. Rank 0 keeps the whole plan, and so do all
// if `is_whole`.
llvm::Expected<SharedLoad> ShareLoad(Communicator& ranks, LoadPlan load, std::span<const LoadedPart> parts,
                                     bool is_whole);

}  // namespace ucp
