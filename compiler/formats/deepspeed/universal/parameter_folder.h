// One folder `zero/<parameter>` of a universal folder: a file for each state, and the step.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/source_archives.h"

namespace ucp::universal {

struct ParameterFolder {
  std::string name;
  std::string path;                           // "zero/<name>"
  std::vector<std::int64_t> shape;            // The same for all states.
  std::map<std::string, TensorPlace> states;  // At least "fp32".
  pytorch::ValuePtr step;                     // Null if there is no step.pt.
  bool is_fused = false;                      // It has an expert for each place of its first dimension.
};

// `shape` is the shape that the checkpoint states elsewhere for this parameter, if anything. It is needed for folders
// of stage 3, which hold bare vectors, and for fused parameters, which DeepSpeed may keep in another view. Fails if
// states have different shapes, or if the master is missing (half-written).
llvm::Expected<ParameterFolder> ReadParameterFolder(ReadableFileSystem& files, const std::string& root,
                                                    SourceArchives& archives, const std::string& name,
                                                    const std::vector<std::int64_t>* shape);

}  // namespace ucp::universal
