#include "runtime/storage/watched_file_system.h"

#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

// From its construction to its end, one call.
class Told {
 public:
  Told(const FileWatchers& watchers, std::string_view what, std::string_view path, std::uint64_t bytes = 0)
      : watchers_(watchers), call_{what, path, bytes, {}, {}} {
    if (watchers_.after_call) call_.begin = Clock::now();
  }
  ~Told() {
    if (!watchers_.after_call) return;
    call_.end = Clock::now();
    watchers_.after_call(call_);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

 private:
  const FileWatchers& watchers_;
  FileCall call_;
};

void BeforeMoving(const FileWatchers& watchers, std::uint64_t bytes) {
  if (watchers.before_moving) watchers.before_moving(bytes);
}

class WatchedReadableFile : public ReadableFile {
 public:
  WatchedReadableFile(std::unique_ptr<ReadableFile> file, const FileWatchers& watchers)
      : file_(std::move(file)), watchers_(watchers) {}

  const std::string& path() const override { return file_->path(); }
  std::uint64_t bytes() const override { return file_->bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    BeforeMoving(watchers_, buffer.size());
    const Told told(watchers_, "read", path(), buffer.size());
    return file_->ReadAt(offset, buffer);
  }
  void StartReading(std::uint64_t offset, std::uint64_t bytes) const override { file_->StartReading(offset, bytes); }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const FileWatchers& watchers_;
};

class WatchedWritableFile : public WritableFile {
 public:
  WatchedWritableFile(std::unique_ptr<WritableFile> file, std::string path, const FileWatchers& watchers)
      : file_(std::move(file)), path_(std::move(path)), watchers_(watchers) {}

  llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    BeforeMoving(watchers_, bytes.size());
    const Told told(watchers_, "write", path_, bytes.size());
    return file_->WriteAt(offset, bytes);
  }
  void StartWriteback(std::uint64_t offset, std::uint64_t bytes) override {
    const Told told(watchers_, "start writeback", path_);
    file_->StartWriteback(offset, bytes);
  }
  llvm::Error Sync() override {
    const Told told(watchers_, "sync", path_);
    return file_->Sync();
  }
  llvm::Error Close() override {
    const Told told(watchers_, "close", path_);
    return file_->Close();
  }

 private:
  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
  const FileWatchers& watchers_;
};

class WatchedWholeSync : public WholeSync {
 public:
  WatchedWholeSync(std::unique_ptr<WholeSync> whole, std::string folder, const FileWatchers& watchers)
      : whole_(std::move(whole)), folder_(std::move(folder)), watchers_(watchers) {}

  std::size_t least_paths() const override { return whole_->least_paths(); }
  llvm::Error Sync() override {
    const Told told(watchers_, "sync file system", folder_);
    return whole_->Sync();
  }

 private:
  const std::unique_ptr<WholeSync> whole_;
  const std::string folder_;
  const FileWatchers& watchers_;
};

class WatchedFileSystem : public FileSystem {
 public:
  WatchedFileSystem(FileSystem& files, FileWatchers watchers) : files_(files), watchers_(std::move(watchers)) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    const Told told(watchers_, "open", path);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(path));
    return std::make_unique<WatchedReadableFile>(std::move(file), watchers_);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    const Told told(watchers_, "create", path);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.CreateForWriting(path, bytes));
    return std::make_unique<WatchedWritableFile>(std::move(file), path, watchers_);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    const Told told(watchers_, "open", path);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.OpenForWriting(path));
    return std::make_unique<WatchedWritableFile>(std::move(file), path, watchers_);
  }

  llvm::Expected<PathKind> Kind(const std::string& path) override {
    const Told told(watchers_, "status", path);
    return files_.Kind(path);
  }
  llvm::Expected<FileStatus> Status(const std::string& path) override {
    const Told told(watchers_, "status", path);
    return files_.Status(path);
  }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override {
    const Told told(watchers_, "list", path);
    return files_.List(path);
  }

  llvm::Error MakeDirectory(const std::string& path) override {
    const Told told(watchers_, "make folder", path);
    return files_.MakeDirectory(path);
  }
  llvm::Error SyncDirectory(const std::string& path) override {
    const Told told(watchers_, "sync folder", path);
    return files_.SyncDirectory(path);
  }
  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WholeSync> whole, files_.OpenWholeSync(folder));
    return std::make_unique<WatchedWholeSync>(std::move(whole), folder, watchers_);
  }
  llvm::Error Rename(const std::string& from, const std::string& to) override {
    const Told told(watchers_, "rename", from);
    return files_.Rename(from, to);
  }
  llvm::Error Exchange(const std::string& a, const std::string& b) override {
    const Told told(watchers_, "exchange", a);
    return files_.Exchange(a, b);
  }
  llvm::Error RemoveTree(const std::string& path) override {
    const Told told(watchers_, "remove", path);
    return files_.RemoveTree(path);
  }

  llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) override { return files_.FreeBytes(directory); }
  llvm::Expected<bool> IsWritable(const std::string& directory) override { return files_.IsWritable(directory); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return files_.TryLock(path); }

 private:
  FileSystem& files_;
  const FileWatchers watchers_;
};

}  // namespace

std::unique_ptr<FileSystem> WatchFiles(FileSystem& files, FileWatchers watchers) {
  return std::make_unique<WatchedFileSystem>(files, std::move(watchers));
}

}  // namespace ucp
