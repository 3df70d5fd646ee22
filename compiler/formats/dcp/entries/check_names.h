// The limits of names in a folder's metadata, whichever package wrote it.
#pragma once

#include <llvm/Support/Error.h>

#include <string_view>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

// Fails (kUnsupported) for keys of more than 4,096 bytes, and for those that hold halves of pairs of code units, as
// Python's texts may, which no other format can write.
[[nodiscard]] llvm::Error CheckKey(std::string_view key);

// Fails (kUnsupported) for entries that are nested more than 200 deep: values are nested again as their keys say.
[[nodiscard]] llvm::Error CheckDepth(const Entry& entry);

// Fails (kBadData) unless the path of the file with this entry stays below the folder, whoever wrote it.
[[nodiscard]] llvm::Error CheckFilePath(std::string_view path, std::string_view key);

}  // namespace ucp::dcp
