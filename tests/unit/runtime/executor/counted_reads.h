// Real files, whose reads are counted.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "compiler/support/error.h"
#include "runtime/storage/forwarding_file_system.h"

namespace ucp {

class CountedReads : public ForwardingFileSystem {
 public:
  CountedReads() : ForwardingFileSystem(RealFileSystem()) {}

  int reads() const { return reads_; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files().OpenForReading(path));
    return std::make_unique<File>(std::move(file), reads_);
  }

 private:
  class File : public ReadableFile {
   public:
    File(std::unique_ptr<ReadableFile> file, std::atomic<int>& reads) : file_(std::move(file)), reads_(reads) {}
    const std::string& path() const override { return file_->path(); }
    std::uint64_t bytes() const override { return file_->bytes(); }
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      ++reads_;
      return file_->ReadAt(offset, buffer);
    }

   private:
    std::unique_ptr<ReadableFile> file_;
    std::atomic<int>& reads_;
  };

  std::atomic<int> reads_ = 0;
};

}  // namespace ucp
