// The digests of a checkpoint, from its data: all of it is read as for a conversion, checksums and replicas checked,
// and nothing is written.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/driver/source_phase.h"
#include "runtime/executor/execute.h"
#include "runtime/io/file_system.h"

namespace ucp {

// ExecutionReport::digests are those of the logical tensors; `phase` is filled as far as it comes, for diagnostics.
llvm::Expected<ExecutionReport> DigestSource(FileSystem& files, const SourceRequest& request,
                                             const ExecutionOptions& options, SourcePhase& phase);

}  // namespace ucp
