// Executing a plan whose target is in parts (target_parts.h): the ranks of each part write its files, and the lowest of
// them acts for the part as rank 0 does for a target that all ranks see.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/plan/plan.h"
#include "runtime/engine/target_parts.h"
#include "runtime/executor/execute.h"
#include "runtime/storage/file_system.h"

namespace ucp {

// Execute() of several ranks, where `target_folder` is that of this rank's part; one that is done is not touched. The
// lowest rank of each part gives `progress_before` for that part. In the report, `file_digests` are empty where all
// parts that have the file were done before, and `digests` are those of other parts. Fails besides (kBadData) if a file
// comes out otherwise in one part than in another: the source has changed in between.
llvm::Expected<ExecutionReport> ExecuteParts(const Plan& plan, const std::string& source_root,
                                             const std::string& target_folder, FileSystem& files,
                                             const ExecutionOptions& options, const TargetParts& parts);

}  // namespace ucp
