// Describes a folder of `.safetensors` files, or one file, from headers.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

#include "runtime/formats/format.h"

namespace ucp::safetensors {

// The folder, if it holds a model; for a file in such a folder, the folder; any other `.safetensors` file or index
// stands for itself. Nothing if it is none of these.
llvm::Expected<std::optional<std::string>> FindModel(FileSystem& files, const std::string& path);

// `path` is what FindModel() returned.
llvm::Expected<Checkpoint> DescribeModel(FileSystem& files, const std::string& path);

}  // namespace ucp::safetensors
