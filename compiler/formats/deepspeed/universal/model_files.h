// The model-states files of a universal folder.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/source_archives.h"

namespace ucp::universal {

// By model-parallel rank. Fails if there are fewer or more than `mp_world_size` says, or if the only files are those
// for stage 3 and list tensors that they do not hold.
llvm::Expected<std::vector<ModelStates>> ReadModelFiles(ReadableFileSystem& files, const std::string& folder,
                                                        SourceArchives& archives);

}  // namespace ucp::universal
