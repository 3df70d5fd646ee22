// The parts of a job's tensors that the ranks of one machine hold: as tensors of their own
// (compiler/formats/dcp/write/part.h), or as boxes in a file of its own (machine_files.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/part.h"
#include "compiler/formats/file_of_save.h"
#include "runtime/job_state/job_state.h"

namespace ucp {

// Leaves in the tensors of `ranks` only the positions that one of these ranks holds, in every dimension; boxes keep
// their sizes. JoinStates() then sees whether boxes fill what is left. Returns the tensors that it has changed, by key.
dcp::PartOfJob TakePart(std::vector<HeldState>& ranks, std::int64_t number);

// Returns the boxes of all tensors with the machine of the rank that stages each, by key.
dcp::MachineFiles BoxesOfMachines(const JoinedState& joined, const std::vector<int>& machine_of_rank);

// Names the files by the save, which `drawn` stands for: kDrawnBytes random bytes.
inline constexpr std::size_t kDrawnBytes = kBytesOfSave;
void NameSave(dcp::MachineFiles& files, std::string_view drawn);

}  // namespace ucp
