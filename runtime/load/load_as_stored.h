// Loading what the source has as it is wanted (LoadPlan::as_stored), without a plan.
#pragma once

#include <llvm/Support/Error.h>

#include <span>

#include "runtime/load/load.h"
#include "runtime/storage/file_system.h"

namespace ucp {

// As Load(), by this process alone, into the host's memory, and without checks of the source: who wants those, plans.
llvm::Expected<LoadReport> LoadAsStored(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                        const LoadOptions& options);

}  // namespace ucp
