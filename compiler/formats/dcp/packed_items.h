// The items of a folder as whoever loads them finds them, for scans of what their pickles name.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::dcp {

// Those that the metadata in this very folder lists; none if there is no metadata. Fails where that cannot be read.
llvm::Expected<std::vector<PackedArchive>> PackedItems(ReadableFileSystem& files, const std::string& folder);

}  // namespace ucp::dcp
