// The configuration of the job that a target is for, as users keep it for DeepSpeed: a JSON file.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/value.h"

namespace ucp {

struct JobConfig {
  std::string path;
  pytorch::ValuePtr value;  // A dict.
};

llvm::Expected<std::string> ReadJobConfig(ReadableFileSystem& files, const std::string& path);

// Fails with kBadData, naming the file and the place, if it is not JSON: DeepSpeed lets comments and missing commas
// pass, and guesses what was meant.
llvm::Expected<JobConfig> ParseJobConfig(const std::string& path, std::string_view text);

}  // namespace ucp
