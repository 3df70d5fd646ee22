// A conversion by the machines of a job, each of which sees a part of the source in a folder of its own.
#pragma once

#include <string>

#include "runtime/jobs/convert/convert.h"

namespace ucp {

// All machines of `execution.ranks`, which must be set, call it together. `request.source.path` is the first machine's
// folder, and `folder` this one's, whose files are taken for files of the former. The destination is a folder that all
// machines see. A target of the kind `6gpus` is chosen, with a remark. Otherwise as ConvertCheckpoint().
llvm::Expected<ConvertReport> ConvertTogether(const ConvertRequest& request, const std::string& folder,
                                              const ConversionOptions& destination, ExecutionOptions execution,
                                              const JobHooks& hooks = {});

}  // namespace ucp
