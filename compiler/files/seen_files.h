// Notes the files that were read, as they were just before: later reads must be from the same ones.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "compiler/files/file_version.h"
#include "compiler/files/readable_file_system.h"

namespace ucp {

// Notes what it opens for reading, when it does so the first time.
class SeenFiles : public ReadableFileSystem {
 public:
  // `files` must outlive this and everything that is opened by it.
  explicit SeenFiles(ReadableFileSystem& files) : files_(files) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }

  FileVersion Version(const std::string& path) const;

 private:
  ReadableFileSystem& files_;
  mutable std::mutex mutex_;  // Protects the next.
  std::unordered_map<std::string, FileVersion> versions_;
};

}  // namespace ucp
