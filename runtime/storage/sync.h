// Making many files and folders durable: each by itself, or all of their file system at once.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/support/parallel.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/whole_sync.h"

namespace ucp {

struct PathsToSync {
  std::vector<std::string> files;
  std::vector<std::string> folders;  // Whose names are to be durable; in this order, behind the files.

  std::size_t size() const { return files.size() + folders.size(); }
};

class Syncer {
 public:
  // `folder` is on the file system of all that will be synced, nothing of which is written yet: of a write that is lost
  // only those learn who listened before. `files` must outlive this.
  Syncer(FileSystem& files, const std::string& folder);

  // They are so many that Sync() makes all of their file system durable, and what else there is need not be known.
  bool AreMany(const PathsToSync& paths) const { return whole_ != nullptr && paths.size() > whole_->least_paths(); }

  [[nodiscard]] llvm::Error Sync(const PathsToSync& paths, const ParallelOptions& options);

  // Returns the way of the last Sync(), and the reason for it.
  const std::string& choice() const { return choice_; }

 private:
  FileSystem* files_;
  std::unique_ptr<WholeSync> whole_;  // Null: there is none.
  std::string why_not_;               // In words, if there is none.
  std::string choice_;
};

}  // namespace ucp
