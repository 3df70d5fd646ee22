// A command that a launcher started several times: rank 0 reads headers, plans, prints and commits; all do the work.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/driver/run_watch.h"

namespace ucp {

// Rank 0 tells for all; the others keep to the bound on bandwidth, which is each rank's own.
llvm::Expected<std::unique_ptr<RunWatch>> BeginWatch(FileSystem& files, const WatchOptions& options,
                                                     Communicator& ranks);

// The exit code for an error that all ranks have; one of them says it.
int EndWith(llvm::Error error, bool json);

}  // namespace ucp
