// The folder that is written (README.md).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"

namespace ucp::dcp {

// Lays out the files of a folder, for a layout that CutIntoBoxes() cut. Fails (kUnsupported) where two entries would
// have one key.
llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request);

}  // namespace ucp::dcp
