// Chooses how a load reads large files, through the page cache or past it: as the caller asks, or by a trial on rank 0
// for all ranks (runtime/storage/choose_io.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/load/load.h"
#include "runtime/storage/choose_io.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {

// All ranks call it, and rank 0's options decide. Data that is read past the page cache goes into the caller's own
// memory, whose process may fork meanwhile: open(2) warns of that, because a page that is written to after a fork is
// another page than the device fills. Here it fills whole pages, to which no thread writes until they are full.
llvm::Expected<IoChoice> ChooseIoOfLoad(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                        const LoadOptions& options, Communicator& ranks);

// Returns how many files of the source may be open at a time. One that is read past the page cache is opened twice.
std::size_t MostOpenFiles(const OpenFileShares& shares, const IoChoice& reading);

}  // namespace ucp
