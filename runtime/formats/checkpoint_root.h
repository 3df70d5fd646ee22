// The folder that users name is often not the checkpoint itself but the root around it, or a file inside. What formats
// share in finding the way.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <optional>
#include <string>

#include "runtime/io/file_system.h"

namespace ucp {

struct CheckpointRoot {
  // Whether this folder is a checkpoint of the format. Given a folder that exists.
  std::function<llvm::Expected<bool>(const std::string& folder)> is_checkpoint;
  std::string latest_file;  // "latest": its text names the folder of the newest checkpoint.
};

// The checkpoint that `path` means: the folder itself, the one around a file, the one that the latest file of a root
// names, or the only one below a root that has no such file; also of the only root in a folder (Hugging Face's
// `checkpoint-500`). Nothing if there is none. Fails if the latest file is not a regular file or names what is no
// checkpoint, or if there are several checkpoints or roots: which one is meant is the user's to say.
llvm::Expected<std::optional<std::string>> FindCheckpoint(FileSystem& files, const std::string& path,
                                                          const CheckpointRoot& root);

}  // namespace ucp
