// A plan that comes from a file, and the checkpoint that it was made from.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/inventory.h"
#include "compiler/plan/codec.h"
#include "compiler/plan/plan.h"

namespace ucp {

// Verified: a plan file comes from outside.
llvm::Expected<PlanWithInputs> ReadPlanFile(ReadableFileSystem& files, const std::string& path);

// Fails (kBadData) for a plan that was made without a checkpoint, to know what a conversion would cost.
[[nodiscard]] llvm::Error CheckIsOfCheckpoint(const std::string& path, const PlanWithInputs& file);

// Fails unless the source is the one that the plan was made from: the same files, sizes and headers.
[[nodiscard]] llvm::Error CheckIdentity(const Plan& plan, const Inventory& inventory);

}  // namespace ucp
