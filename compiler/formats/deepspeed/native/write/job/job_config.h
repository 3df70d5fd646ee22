// The target job's own configuration (--ds-config) in the place of the source's: what it decides, and where a strategy
// decides otherwise.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"

namespace ucp::deepspeed {

// Returns the file with DeepSpeed's defaults where it says nothing, as far as that changes the bytes. Fails with kUsage
// for entries that DeepSpeed would not read as they stand, such as `auto`, unless the strategy has a setting for it;
// for a section that is misspelt; and for degrees that the strategy leaves out.
llvm::Expected<pytorch::ValuePtr> ConfigOfJob(const EngineConfig& job, const Strategy& strategy);

// Remarks on the file and this target: settings of the strategy that count instead of the file's, and what becomes of
// the source's batch. `configured` is the source's training state with the file as its `ds_config`.
std::vector<std::string> CompareWithJob(const EngineConfig& job, const TrainingState& configured,
                                        const WriteOptions& options, const TargetRequest& request);

}  // namespace ucp::deepspeed
