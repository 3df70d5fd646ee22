// The real file system, with a count of what is read.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/io/file_system.h"

namespace ucp::testing {

class CountingFileSystem : public FileSystem {
 public:
  std::uint64_t bytes_read() const { return bytes_read_; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path, std::uint64_t bytes) override;
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    return real_.OpenForWriting(path);
  }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return real_.Status(path); }
  llvm::Expected<bool> IsWritable(const std::string& path) override { return real_.IsWritable(path); }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return real_.Kind(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return real_.List(path); }
  llvm::Error MakeDirectory(const std::string& path) override { return real_.MakeDirectory(path); }
  llvm::Error SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  llvm::Error Rename(const std::string& from, const std::string& to) override { return real_.Rename(from, to); }
  llvm::Error Exchange(const std::string& a, const std::string& b) override { return real_.Exchange(a, b); }
  llvm::Error RemoveTree(const std::string& path) override { return real_.RemoveTree(path); }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& path) override { return real_.FreeBytes(path); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return real_.TryLock(path); }

 private:
  FileSystem& real_ = RealFileSystem();
  std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace ucp::testing
