// Describes a universal folder: one that this project wrote, or one of DeepSpeed's own converter.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/format.h"

namespace ucp::universal {

llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference);

}  // namespace ucp::universal
