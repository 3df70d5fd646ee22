// A root's file `latest` names the folder of its newest checkpoint. It is a hint that anybody may have written: its
// target must lie in the root and be a checkpoint, or there is an error.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <optional>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp {

using IsCheckpoint = llvm::function_ref<llvm::Expected<bool>(const std::string& folder)>;

// Returns the folder that the format's latest file in `root` names. Returns nothing if there is no such file, or if a
// checkpoint is called so. Fails (kBadData) if it is neither a regular file nor a link to one, if it is empty, or if it
// names unfinished work, or what is not in the root, missing, or not a checkpoint.
llvm::Expected<std::optional<std::string>> FollowLatest(ReadableFileSystem& files, const std::string& root,
                                                        const Format& format, IsCheckpoint is_checkpoint);

}  // namespace ucp
