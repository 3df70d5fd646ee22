// Symbolic links in a checkpoint are hints from outside: one that leads out of the folder that was named is followed,
// and said.
#pragma once

#include <llvm/Support/Error.h>

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/storage.h"

namespace ucp {

// Where the link `path` ends, if it is one that leads out of the folder `root`.
llvm::Expected<std::optional<std::string>> EndOutside(ReadableFileSystem& files, const std::string& root,
                                                      const std::string& path);

// Notes which of the paths that a description opens are links, at no cost where files are found by listing their
// folder.
class WatchedLinks : public ReadableFileSystem {
 public:
  // `files` must outlive this and everything that is opened by it.
  explicit WatchedLinks(ReadableFileSystem& files) : files_(files) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override;

  // Returns a sentence about the files of a checkpoint in `folder` that lie behind links out of `root`; empty if none
  // does.
  llvm::Expected<std::string> Remark(const std::string& root, const std::string& folder,
                                     const std::vector<StoredFile>& stored);

 private:
  ReadableFileSystem& files_;
  std::mutex mutex_;  // Protects the next.
  std::set<std::string> listed_;
  std::set<std::string> links_;
};

}  // namespace ucp
