#include "compiler/formats/job_config.h"

#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostBytes = 4u << 20;  // Real ones have a few KB.

}  // namespace

llvm::Expected<JobConfig> ReadJobConfig(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, path, kMostBytes));
  return JobConfig{path, std::move(text)};
}

}  // namespace ucp
