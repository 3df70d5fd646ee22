// The files that one node sees: a folder of the test that has the same name on every node, with what is in this node's
// own folder. Everything else is the same for all.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/storage/file_system.h"

namespace ucp {

class OwnDisk : public FileSystem {
 public:
  OwnDisk(std::string shared_name, std::string own_folder)
      : name_(std::move(shared_name)), own_(std::move(own_folder)) {}

  // From the `number`th one on, reads of this node's own files fail.
  void FailReadsFrom(int number) { reads_left_ = number; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, real_.OpenForReading(Own(path)));
    return std::make_unique<OwnFile>(*this, std::move(file));
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return real_.Kind(Own(path)); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return real_.Status(Own(path)); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return real_.List(Own(path)); }

  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    return real_.CreateForWriting(path, bytes);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    return real_.OpenForWriting(path);
  }
  llvm::Error MakeDirectory(const std::string& path) override { return real_.MakeDirectory(path); }
  llvm::Error SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  llvm::Error Rename(const std::string& from, const std::string& to) override { return real_.Rename(from, to); }
  llvm::Error Exchange(const std::string& a, const std::string& b) override { return real_.Exchange(a, b); }
  llvm::Error RemoveTree(const std::string& path) override { return real_.RemoveTree(path); }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& path) override { return real_.FreeBytes(path); }
  llvm::Expected<bool> IsWritable(const std::string& path) override { return real_.IsWritable(path); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return real_.TryLock(path); }

 private:
  class OwnFile : public ReadableFile {
   public:
    OwnFile(OwnDisk& disk, std::unique_ptr<ReadableFile> file) : disk_(disk), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    std::uint64_t bytes() const override { return file_->bytes(); }
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      if (disk_.reads_left_-- <= 0) return Fail(ErrorCode::kIo, "cannot read `{}`: input/output error", path());
      return file_->ReadAt(offset, buffer);
    }

   private:
    OwnDisk& disk_;
    std::unique_ptr<ReadableFile> file_;
  };

  std::string Own(const std::string& path) const {
    return path.starts_with(name_) ? own_ + path.substr(name_.size()) : path;
  }

  FileSystem& real_ = RealFileSystem();
  const std::string name_;
  const std::string own_;
  std::atomic<int> reads_left_ = 1 << 30;
};

}  // namespace ucp
