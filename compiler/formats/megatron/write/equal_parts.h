// How a target cuts its tensors before any other cut: into layers and experts, gated ones into their halves, and for
// own buffers into the parts of tensor-parallel ranks.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::megatron {

// Returns the names of the tensors whose rows are all of a gate, and then all of an up half.
std::set<std::string> GatedTensors(std::span<const LogicalTensor> tensors);

// Returns into how many equal parts each of the first dimensions is cut, by tensor. For own buffers they are the parts
// of the ranks in `args`. Fails (kUsage) where ranks cannot share out a tensor evenly, and (kUnsupported) where it is
// not known how they would.
llvm::Expected<std::map<std::string, std::vector<std::int64_t>>> EqualPartsOf(const TargetOptions& options,
                                                                              const TrainingState& training,
                                                                              std::span<const LogicalTensor> tensors);

}  // namespace ucp::megatron
