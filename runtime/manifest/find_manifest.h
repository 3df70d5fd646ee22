// The manifest of a checkpoint, where it has one.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/manifest/manifest.h"

namespace ucp {

struct FoundManifest {
  std::string root;  // The folder that it stands in.
  Manifest manifest;
};

// Returns the folders in which the manifest of a path may stand, in this order.
std::vector<std::string> RootsOf(const std::string& path);

// Finds the manifest in the folder that was named, or in the one above it: a tag's folder may be named as well.
llvm::Expected<std::optional<FoundManifest>> FindManifest(ReadableFileSystem& files, const std::string& path);

}  // namespace ucp
