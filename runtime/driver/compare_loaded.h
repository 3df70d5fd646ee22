// Compares the loaded elements with the source, element by element: read again by another plan, onto whole tensors, and
// found by each element's own place, without the geometry that the loading plan was made by.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

#include "compiler/describe/bound_source.h"
#include "compiler/files/readable_file_system.h"
#include "runtime/executor/execute.h"
#include "runtime/load/load.h"

namespace ucp {

struct LoadedComparison {
  std::uint64_t elements = 0;  // Compared.
  std::uint64_t differ = 0;
  std::string first;  // The first one in words, in the order of the target's files.
};

llvm::Expected<LoadedComparison> CompareLoaded(ReadableFileSystem& files, const LoadPlan& load,
                                               const SourceRequest& source, std::span<const WantedRecord> records,
                                               const ExecutionOptions& options);

}  // namespace ucp
