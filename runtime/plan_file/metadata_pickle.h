// The ready-made `.metadata` of a dcp folder in a plan file, which PyTorch unpickles with all that it names.
#pragma once

#include <llvm/Support/Error.h>

#include <string_view>

namespace ucp {

// Fails (kBadData), as the end of a sentence, unless the pickle has only instructions that this project writes, and
// names only the classes of PyTorch's metadata. Linear, and without a tree of values: there may be a million chunks.
[[nodiscard]] llvm::Error CheckMetadataPickle(std::string_view pickle);

}  // namespace ucp
