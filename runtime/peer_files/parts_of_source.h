// A source whose parts a conversion has put on several nodes: whether those that ranks see belong together, and are
// enough.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/comm/communicator.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {

struct PartsOfSource {
  FoundManifest found;            // The same on all ranks: that of the lowest one that sees a part.
  std::vector<int> part_of_rank;  // From 1 on; 0: the rank sees none.

  std::vector<int> RanksWith(int part) const;
};

// All ranks call it together, each with the files that it sees; nothing if no rank sees a part. Fails on all of them
// (kBadData) if one sees a part of another run, or the checkpoint without a part's manifest, which may be an older one;
// and if there are files of parts that nobody sees.
llvm::Expected<std::optional<PartsOfSource>> FindPartsOfSource(ReadableFileSystem& files, const std::string& path,
                                                               Communicator& ranks);

}  // namespace ucp
