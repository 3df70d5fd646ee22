// Describes a DeepSpeed checkpoint folder: the headers of all its files become shards and a training state.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/format.h"

namespace ucp::deepspeed {

llvm::Expected<Checkpoint> DescribeCheckpoint(ReadableFileSystem& files, const std::string& folder,
                                              const RankPreference& preference, unsigned threads);

}  // namespace ucp::deepspeed
