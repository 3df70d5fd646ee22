#include "runtime/storage/discarding_file_system.h"

#include <limits>

#include "compiler/support/error.h"

namespace ucp {
namespace {

class DiscardedFile : public WritableFile {
 public:
  llvm::Error WriteAt(std::uint64_t, std::span<const std::byte>) override { return llvm::Error::success(); }
  llvm::Error Sync() override { return llvm::Error::success(); }
  llvm::Error Close() override { return llvm::Error::success(); }
};

class DiscardingFileSystem : public FileSystem {
 public:
  explicit DiscardingFileSystem(ReadableFileSystem& files) : files_(files) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return files_.OpenForReading(path);
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }

  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string&, std::uint64_t) override {
    return std::make_unique<DiscardedFile>();
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string&) override {
    return std::make_unique<DiscardedFile>();
  }
  llvm::Error MakeDirectory(const std::string&) override { return llvm::Error::success(); }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string&) override {
    return std::numeric_limits<std::uint64_t>::max();
  }
  llvm::Expected<bool> IsWritable(const std::string&) override { return true; }

  llvm::Error SyncDirectory(const std::string& path) override { return Refuse(path); }
  llvm::Error Rename(const std::string& from, const std::string&) override { return Refuse(from); }
  llvm::Error Exchange(const std::string& a, const std::string&) override { return Refuse(a); }
  llvm::Error RemoveTree(const std::string& path) override { return Refuse(path); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return Refuse(path); }

 private:
  static llvm::Error Refuse(const std::string& path) {
    return Fail(ErrorCode::kUnsupported, "`{}`: nothing is committed to a file system that keeps nothing", path);
  }

  ReadableFileSystem& files_;
};

}  // namespace

std::unique_ptr<FileSystem> MakeDiscardingFileSystem(ReadableFileSystem& files) {
  return std::make_unique<DiscardingFileSystem>(files);
}

}  // namespace ucp
