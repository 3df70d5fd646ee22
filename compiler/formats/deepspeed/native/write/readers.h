// The files of a native checkpoint that each rank's engine opens when it loads it.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"
#include "compiler/layout/file_readers.h"

namespace ucp::deepspeed {

// `target` is the result of LayOutCheckpoint() for the same request. A rank is (stage * partitions + partition) * tp +
// tensor rank, as PipeModelDataParallelTopology numbers them, and with it every job without a pipeline. Not counted:
// the first file of a list, which every rank opens only to see that the list is complete.
llvm::Expected<FileReaders> ReadersOf(const TargetRequest& asked, const TargetFiles& target);

}  // namespace ucp::deepspeed
