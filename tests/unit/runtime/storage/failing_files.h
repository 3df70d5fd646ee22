// The real file system, but for one call that fails: the n-th.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/storage/file_system.h"

namespace ucp {

class FailingFiles : public FileSystem {
 public:
  explicit FailingFiles(int failing_call) : failing_call_(failing_call) {}

  bool has_failed() const { return calls_ >= failing_call_; }
  std::string failed_call() const { return failed_call_; }
  // From now on nothing fails.
  void Heal() { failing_call_ = 1 << 30; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("open", path));
    UCP_ASSIGN_OR_RETURN(auto file, real_.OpenForReading(path));
    return std::make_unique<Reading>(*this, std::move(file));
  }
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    UCP_RETURN_IF_ERROR(Count("create", path));
    UCP_ASSIGN_OR_RETURN(auto file, real_.CreateForWriting(path, bytes));
    return std::make_unique<Writing>(*this, path, std::move(file));
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("open to write", path));
    UCP_ASSIGN_OR_RETURN(auto file, real_.OpenForWriting(path));
    return std::make_unique<Writing>(*this, path, std::move(file));
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("kind", path));
    return real_.Kind(path);
  }
  llvm::Expected<FileStatus> Status(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("status", path));
    return real_.Status(path);
  }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("list", path));
    return real_.List(path);
  }
  llvm::Error MakeDirectory(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("make directory", path));
    return real_.MakeDirectory(path);
  }
  llvm::Error SyncDirectory(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("sync directory", path));
    return real_.SyncDirectory(path);
  }
  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder) override {
    if (!can_sync_whole) return Fail(ErrorCode::kUnsupported, "cannot be synced as a whole here");
    return std::make_unique<Whole>(*this, folder);
  }
  llvm::Error Rename(const std::string& from, const std::string& to) override {
    UCP_RETURN_IF_ERROR(Count("rename", from));
    return real_.Rename(from, to);
  }
  llvm::Error Exchange(const std::string& a, const std::string& b) override {
    if (!can_exchange) return Fail(ErrorCode::kUnsupported, "cannot exchange here");
    UCP_RETURN_IF_ERROR(Count("exchange", a));
    return real_.Exchange(a, b);
  }
  llvm::Error RemoveTree(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("remove", path));
    return real_.RemoveTree(path);
  }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) override {
    UCP_RETURN_IF_ERROR(Count("free bytes", directory));
    return real_.FreeBytes(directory);
  }
  llvm::Expected<bool> IsWritable(const std::string& directory) override {
    UCP_RETURN_IF_ERROR(Count("is writable", directory));
    return real_.IsWritable(directory);
  }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
    UCP_RETURN_IF_ERROR(Count("lock", path));
    return real_.TryLock(path);
  }

  bool can_exchange = true;     // False: like a file system without RENAME_EXCHANGE.
  bool can_sync_whole = false;  // True: even a few files.

 private:
  class Reading : public ReadableFile {
   public:
    Reading(FailingFiles& owner, std::unique_ptr<ReadableFile> file) : owner_(owner), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    std::uint64_t bytes() const override { return file_->bytes(); }
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      UCP_RETURN_IF_ERROR(owner_.Count("read", path()));
      return file_->ReadAt(offset, buffer);
    }

   private:
    FailingFiles& owner_;
    std::unique_ptr<ReadableFile> file_;
  };

  class Writing : public WritableFile {
   public:
    Writing(FailingFiles& owner, std::string path, std::unique_ptr<WritableFile> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
      UCP_RETURN_IF_ERROR(owner_.Count("write", path_));
      return file_->WriteAt(offset, bytes);
    }
    llvm::Error Sync() override {
      UCP_RETURN_IF_ERROR(owner_.Count("sync", path_));
      return file_->Sync();
    }
    llvm::Error Close() override {
      UCP_RETURN_IF_ERROR(owner_.Count("close", path_));
      return file_->Close();
    }

   private:
    FailingFiles& owner_;
    std::string path_;
    std::unique_ptr<WritableFile> file_;
  };

  class Whole : public WholeSync {
   public:
    Whole(FailingFiles& owner, std::string folder) : owner_(owner), folder_(std::move(folder)) {}
    std::size_t least_paths() const override { return 1; }
    llvm::Error Sync() override { return owner_.Count("sync whole", folder_); }

   private:
    FailingFiles& owner_;
    std::string folder_;
  };

  llvm::Error Count(const std::string& call, const std::string& path) {
    if (++calls_ != failing_call_) return llvm::Error::success();
    failed_call_ = call + " " + path;
    return Fail(ErrorCode::kIo, "injected failure: {} {}", call, path);
  }

  FileSystem& real_ = RealFileSystem();
  std::atomic<int> calls_ = 0;
  int failing_call_;
  std::string failed_call_;
};

}  // namespace ucp
