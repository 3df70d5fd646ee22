// Describes a folder of Megatron Core's `torch_dist` from its metadata and the headers of its items.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::megatron {

enum class States { kAsStored, kShifted };  // kShifted: by Megatron Core's fault (shifted_states.h).

// With kShifted it fails (kUsage) if nothing is shifted, and (kUnsupported) if it is not known by how much.
llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference, unsigned threads, States states);

}  // namespace ucp::megatron
