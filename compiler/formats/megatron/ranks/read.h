// Describes a folder of the older container, `--ckpt-format torch`, from the headers of the files of its ranks.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp::megatron {

llvm::Expected<Checkpoint> DescribeRanks(ReadableFileSystem& files, const std::string& folder,
                                         const RankPreference& preference, unsigned threads);

}  // namespace ucp::megatron
