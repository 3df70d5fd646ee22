// Files, and among them what parts of them unpack to (unpacked_file.h) or widen to (widened_file.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp {

class UnpackingFiles : public ReadableFileSystem {
 public:
  // `files` must outlive this and everything that is opened by it.
  explicit UnpackingFiles(ReadableFileSystem& files) : files_(files) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  // Of such a file: that of the one that it is made of, with its own number of bytes.
  llvm::Expected<FileStatus> Status(const std::string& path) override;
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }

 private:
  ReadableFileSystem& files_;
};

}  // namespace ucp
