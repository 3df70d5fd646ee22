// The configuration of the job that a target is for: a file as its user keeps it, which the target's format interprets.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"

namespace ucp {

struct JobConfig {
  std::string path;
  std::string text;
};

llvm::Expected<JobConfig> ReadJobConfig(ReadableFileSystem& files, const std::string& path);

}  // namespace ucp
