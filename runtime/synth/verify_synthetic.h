// Checks whether a checkpoint, also after conversions, holds the elements that `ucprun synth` writes: element by
// element, in bounded memory, in one pass over its data.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/executor/execute.h"
#include "runtime/same_states/source_digests.h"

namespace ucp {

struct SyntheticCheck {
  DigestedSource source;
  // A sentence for each tensor and state with wrong elements: how many, and of the first its place in the tensor, in
  // which file and where it stands there, its value and the right value.
  std::vector<std::string> wrong;
};

// Over all ranks of `options`; rank 0 has all of the result. Fails where the checkpoint cannot be read, or has numbers
// that no synthetic one has.
llvm::Expected<SyntheticCheck> CheckSynthetic(ReadableFileSystem& files, const SourceRequest& request,
                                              const ExecutionOptions& options, FilesOfAllRanks* nodes = nullptr);

}  // namespace ucp
