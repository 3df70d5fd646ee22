// Describes a folder that the package torch_checkpointing saved, from `metadata.pkl` and the headers of ranks' files.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::dcp {

inline constexpr const char* kTorchCheckpointingFile = "metadata.pkl";

// Returns whether it is one: it has that file, and another one of the first rank.
llvm::Expected<bool> IsOfTorchCheckpointing(ReadableFileSystem& files, const std::string& folder);

// `tag` is the name of the checkpoint.
llvm::Expected<Checkpoint> DescribeTorchCheckpointing(ReadableFileSystem& files, const std::string& folder,
                                                      const RankPreference& preference, const std::string& tag);

}  // namespace ucp::dcp
