// The configuration of the target's job (--ds-config) as DeepSpeed reads it: JSON.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/job_config.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

struct EngineConfig {
  std::string path;
  pytorch::ValuePtr value;  // A dict.
};

// Fails with kBadData, naming the file and the place, if it is not JSON: DeepSpeed lets comments and missing commas
// pass, and guesses the meaning.
llvm::Expected<EngineConfig> ParseEngineConfig(const JobConfig& job);

}  // namespace ucp::deepspeed
