// The writer of a machine other than the first rank's. It gives its machine's ranks their memory, passes on their
// messages to the first writer and its answers, and writes its part of a save. So the first writer knows all ranks, and
// decides alone (writer.h). If either of the two goes, both end, and the next save begins with new ones.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/files/descriptor.h"
#include "runtime/save/writer.h"
#include "runtime/save/writer_ranks.h"

namespace ucp {

// As ServeRanks(), which `first` has come to.
llvm::Expected<Served> RelayRanks(FileSystem& files, Descriptor listener, JoinedRank first);

}  // namespace ucp
