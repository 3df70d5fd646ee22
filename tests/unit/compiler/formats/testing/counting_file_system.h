// The real file system, with a count of what is read.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp::testing {

class CountingFileSystem : public ReadableFileSystem {
 public:
  std::uint64_t bytes_read() const { return bytes_read_; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override { return real_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return real_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return real_.List(path); }

 private:
  ReadableFileSystem& real_ = RealFiles();
  std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace ucp::testing
