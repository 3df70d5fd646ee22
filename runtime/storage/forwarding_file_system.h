// A file system that is another one in every call. A class that changes some calls overrides those.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/storage/file_system.h"

namespace ucp {

class ForwardingFileSystem : public FileSystem {
 public:
  // `files` must outlive this and everything that is opened by it.
  explicit ForwardingFileSystem(FileSystem& files) : files_(files) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return files_.OpenForReading(path);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    return files_.CreateForWriting(path, bytes);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    return files_.OpenForWriting(path);
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }
  llvm::Error MakeDirectory(const std::string& path) override { return files_.MakeDirectory(path); }
  llvm::Error SyncDirectory(const std::string& path) override { return files_.SyncDirectory(path); }
  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder) override {
    return files_.OpenWholeSync(folder);
  }
  llvm::Error Rename(const std::string& from, const std::string& to) override { return files_.Rename(from, to); }
  llvm::Error Exchange(const std::string& a, const std::string& b) override { return files_.Exchange(a, b); }
  llvm::Error RemoveTree(const std::string& path) override { return files_.RemoveTree(path); }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) override { return files_.FreeBytes(directory); }
  llvm::Expected<bool> IsWritable(const std::string& directory) override { return files_.IsWritable(directory); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return files_.TryLock(path); }

 protected:
  FileSystem& files() { return files_; }

 private:
  FileSystem& files_;
};

}  // namespace ucp
