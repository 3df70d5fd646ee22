// Files that belong to a model and not to its weights: its configuration, its tokenizer. They often lie beside a
// training job's checkpoint, and a folder that others load the model from should have them.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/io/file_system.h"

namespace ucp {

struct CompanionFile {
  std::string name;
  std::string content;
};

// Those of the known names (companions.cpp) that lie in one of the folders; the first folder that has one gives it.
// Fails (kBadData) for one that is larger than any real one.
llvm::Expected<std::vector<CompanionFile>> FindCompanions(FileSystem& files, const std::vector<std::string>& folders);

}  // namespace ucp
