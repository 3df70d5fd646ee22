// The other tags in a checkpoint's root, by the names of their files: a job that was stopped while it saved leaves a
// tag that lacks some, beside the one that `latest` still names.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/deepspeed/common/file_names.h"

namespace ucp::deepspeed {

// Returns a sentence for each tag beside `folder` that is half-written, with a file that it lacks. Tags with a lower
// number are passed over, and so is a folder that lies in no root. A folder that cannot be listed is not there.
std::vector<std::string> RemarksOnTagsBeside(ReadableFileSystem& files, const std::string& folder,
                                             const CheckpointFiles& names);

// `error` is why `folder` cannot be read. Where a tag beside it has all its files and more, the message says so: saving
// this one was interrupted.
[[nodiscard]] llvm::Error NameTagBeside(ReadableFileSystem& files, const std::string& folder, llvm::Error error);

}  // namespace ucp::deepspeed
