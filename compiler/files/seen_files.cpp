#include "compiler/files/seen_files.h"

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::unique_ptr<ReadableFile>> SeenFiles::OpenForReading(const std::string& path) {
  if (!Version(path).is_known()) {
    // Before it is opened: what is exchanged in between is seen to differ, and not the other way round.
    UCP_ASSIGN_OR_RETURN(const FileStatus status, files_.Status(path));
    std::lock_guard lock(mutex_);
    versions_.try_emplace(path, VersionOf(status));
  }
  return files_.OpenForReading(path);
}

FileVersion SeenFiles::Version(const std::string& path) const {
  std::lock_guard lock(mutex_);
  auto found = versions_.find(path);
  return found == versions_.end() ? FileVersion() : found->second;
}

}  // namespace ucp
