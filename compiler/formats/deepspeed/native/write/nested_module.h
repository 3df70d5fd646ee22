// The module of Megatron-DeepSpeed's models without a pipeline, which is saved as dicts inside dicts: one for
// `language_model`, in it one for each part, and in `embedding` one more for each table. Names below that stay flat.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// Returns whether the source's module was saved so.
bool HasNestedModule(const TrainingState& training, std::span<const LogicalTensor> tensors);

// Fails with kUnsupported for a tensor outside the parts that are known to be saved so.
[[nodiscard]] llvm::Error CheckNestedModule(std::span<const LogicalTensor> tensors);

// Call with entries of tensors that were checked, and others beside them.
pytorch::ValuePtr NestModule(const std::vector<pytorch::Entry>& entries);

}  // namespace ucp::deepspeed
