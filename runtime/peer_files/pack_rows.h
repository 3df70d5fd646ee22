// Reading rows of bytes out of a file, without the bytes between them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <span>

#include "compiler/files/readable_file_system.h"
#include "runtime/engine/source_of_nodes.h"

namespace ucp {

// Fills `packed`, which has as many bytes, with the rows one after the other. Rows that lie close together are read as
// one stretch into `window` and taken from there.
[[nodiscard]] llvm::Error PackRows(const ReadableFile& file, const ByteRows& rows, std::span<std::byte> packed,
                                   std::span<std::byte> window);

}  // namespace ucp
