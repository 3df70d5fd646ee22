// Describes a folder of `.safetensors` files or of `pytorch_model.bin`, or one file, from headers.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <span>
#include <string>

#include "compiler/formats/format.h"
#include "compiler/formats/format_state.h"

namespace ucp::safetensors {

// Returns whether a folder holds a model, or two of which one is to be named.
llvm::Expected<bool> IsModel(ReadableFileSystem& files, const std::string& folder);

// Returns, for a `.safetensors` file or index, its folder if it belongs to the only model there, else itself; for a
// file or index of IsTorchName() (torch_files.h) itself. Returns nothing for other files.
llvm::Expected<std::optional<std::string>> ModelMeantBy(ReadableFileSystem& files, const std::string& path);

// Describes a folder for which IsModel() is true, or the result of ModelMeantBy(). `readers` are those of all families
// whose part of a training state the folder may carry.
llvm::Expected<Checkpoint> DescribeModel(ReadableFileSystem& files, const std::string& path,
                                         std::span<const FormatStateReader> readers);

}  // namespace ucp::safetensors
