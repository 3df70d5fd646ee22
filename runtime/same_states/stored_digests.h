// The digests of tensors that the manifest of a checkpoint states.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <utility>

#include "compiler/compile/compile.h"
#include "runtime/manifest/manifest.h"

namespace ucp {

using StoredDigests = std::map<std::pair<std::string, std::string>, StateDigest>;  // By tensor and state.

// Returns the digests of the checkpoint that was found at `path`; empty if it has no manifest, one with digests of an
// earlier version, or one that speaks of other files or of files of other sizes: somebody else has written to the
// folder since.
llvm::Expected<StoredDigests> FindStoredDigests(ReadableFileSystem& files, const std::string& path,
                                                const Inventory& inventory);

}  // namespace ucp
