// The older files of Hugging Face's models: `pytorch_model.bin`, or several with `pytorch_model.bin.index.json`. Each
// is an archive of torch.save that holds a dict of tensors by name. They are read and not written.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <string_view>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::safetensors {

// Returns whether this is the name of such a file or index: "pytorch_model-00001-of-00002.bin".
bool IsTorchName(std::string_view name);

// Returns the file or index of the model in a folder; nothing if there is none. Fails (kBadData) if there are both.
llvm::Expected<std::optional<std::string>> FindTorchModel(ReadableFileSystem& files, const std::string& folder);

// Adds the tensors of such a file or index of the folder `root`. Of several names of the same memory all but the first
// are second names. Fails (kUnsupported) for a file that does not hold a dict of tensors, and (kBadData) where an index
// and its files contradict each other.
[[nodiscard]] llvm::Error AddTorchModel(ReadableFileSystem& files, const std::string& root, const std::string& name,
                                        Checkpoint& checkpoint);

}  // namespace ucp::safetensors
