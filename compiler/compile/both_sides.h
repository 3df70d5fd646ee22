// The layouts of a source and of a target as a spec has them, with a checkpoint or without, to be explained.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

#include "compiler/describe/bound_source.h"
#include "compiler/files/readable_file_system.h"

namespace ucp {

// The layouts of a spec point into the source.
struct BothSides {
  BoundSource source;
  std::string source_name;  // Its format; empty for a spec alone.
  std::optional<Layout> target;
  std::string target_name;
};

// `request.path` is a checkpoint, a strategy or nothing; `target` a strategy or empty.
llvm::Expected<BothSides> LayOutBothSides(ReadableFileSystem& files, const SourceRequest& request,
                                          const std::string& target);

}  // namespace ucp
