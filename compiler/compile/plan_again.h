// Making a plan again: a plan file says what it was made from (compiler/plan/plan_inputs.h), and with the same
// checkpoint the same plan comes of it, but for its remarks, which also mention files beside the checkpoint.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/compile/compile.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/plan_inputs.h"

namespace ucp {

// Returns the inputs in `request`, with the files --config and --ds-config, which it names.
llvm::Expected<PlanInputs> ReadInputs(ReadableFileSystem& files, const CompileRequest& request);

// Does the same for a plan file, once it has been compiled: with the spec, and no paths but names.
void CompleteInputs(const CompileRequest& request, const BoundSource& source, PlanInputs& inputs);

// Returns the request that was made, of the checkpoint at `path`. `inputs` must outlive it.
llvm::Expected<CompileRequest> RequestOf(const PlanInputs& inputs, const RankPreference& preference,
                                         const std::string& path);

// Fails (kBadData) unless `again`, which this version has made, is what the plan file `path` holds as `plan`, but for
// its remarks. The message names the first entry that differs, as it stands in both.
[[nodiscard]] llvm::Error CheckMadeAgain(const std::string& path, Plan plan, const Plan& again);

}  // namespace ucp
