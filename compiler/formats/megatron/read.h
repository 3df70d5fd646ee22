// Describes a folder of Megatron Core's `torch_dist` from its metadata and the headers of its items.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::megatron {

llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference, unsigned threads);

}  // namespace ucp::megatron
