// The optimizers of a target, each with its groups: experts that other ranks have copies of than of the rest have an
// optimizer of their own.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::megatron {

using Optimizers = std::vector<std::vector<OptimizerGroup>>;

// Fails (kUsage) if experts cannot be shared evenly among so many ranks, or if the model has none to share.
[[nodiscard]] llvm::Error CheckExpertsShareOut(std::span<const LogicalTensor> tensors, std::int64_t expert_parallel);

// Returns one optimizer, or that of the rest and that of experts. Without `expert_parallel` there are as many as the
// source has. Fails (kUnsupported) if a group of experts and one of the rest would be one and have other settings.
llvm::Expected<Optimizers> OptimizersOf(std::span<const OptimizerGroup> groups,
                                        std::optional<std::int64_t> expert_parallel);

}  // namespace ucp::megatron
