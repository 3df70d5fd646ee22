// The folder that is written (README.md).
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"

namespace ucp::dcp {

// For a layout that CutIntoBoxes() cut. Fails (kUnsupported) where two entries would have one key.
llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request);

}  // namespace ucp::dcp
