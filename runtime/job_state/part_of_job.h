// The parts of a job's tensors that the ranks of one machine hold: as tensors of their own
// (compiler/formats/dcp/write/part.h), or as boxes in a file of its own (machine_files.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/part.h"
#include "runtime/job_state/job_state.h"

namespace ucp {

// Leaves in the tensors of `ranks` only the positions that one of these ranks holds, in every dimension; boxes keep
// their sizes. JoinStates() then sees whether boxes fill what is left. Returns the tensors that it has changed, by key.
dcp::PartOfJob TakePart(std::vector<HeldState>& ranks, std::int64_t number);

// Returns the boxes of all tensors with the machine of the rank that stages each, by key.
dcp::MachineFiles BoxesOfMachines(const JoinedState& joined, const std::vector<int>& machine_of_rank);

}  // namespace ucp
