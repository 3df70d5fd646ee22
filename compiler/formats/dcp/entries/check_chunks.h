// Whether the chunks of a tensor are a partition of it.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

// Returns how many elements a chunk or a tensor has. Fails (kBadData) for negative sizes, and for more bytes than 63
// bits count.
llvm::Expected<std::int64_t> ElementsOf(llvm::ArrayRef<std::int64_t> sizes, DType dtype);

// Sorts the chunks of `entry` by their offsets. Fails (kBadData) unless they lie within it, meet nowhere, cover it, and
// have a place each. Chunks without elements are left out, unless the tensor has none.
[[nodiscard]] llvm::Error TakeChunks(Entry& entry);

}  // namespace ucp::dcp
