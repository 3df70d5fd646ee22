// `zero/optimizer_state.pt`, as this project and DeepSpeed's converter write it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "compiler/formats/source_archives.h"

namespace ucp::universal {

struct OptimizerStateFile {
  struct Group {
    pytorch::ValuePtr hyper_parameters;  // A dict.
    // The lists of `param_shapes` that are its own: one for each group, or (stage 3) one for each sub-group.
    std::vector<std::int64_t> places;
  };
  std::vector<Group> groups;
  std::vector<pytorch::Entry> carried;  // Entries that do not belong to one partition alone.
  pytorch::ValuePtr
      step;  // Of all groups, in folders that DeepSpeed made from stage 3, which have no step.pt; or null.
};

llvm::Expected<OptimizerStateFile> ReadOptimizerStateFile(SourceArchives& archives);

}  // namespace ucp::universal
