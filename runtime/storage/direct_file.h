// Files whose large pieces go past the page cache (O_DIRECT). The device then moves whole blocks, to and from memory
// that begins at a block too; so the rest of a piece at its ends, small pieces, and everything where the system
// refuses, go through the page cache, by the file that is wrapped. The bytes are the same either way.
//
// Reading takes memory that begins anywhere: the blocks are read to the nearest place that will do, and moved. Writing
// goes past the page cache only from memory that stands as in the file: equal modulo kDirectBlockBytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "compiler/files/descriptor.h"
#include "runtime/storage/file_system.h"

namespace ucp {

inline constexpr std::uint64_t kDirectBlockBytes = 4096;                      // A multiple of what devices ask for.
inline constexpr std::uint64_t kLeastDirectBytes = std::uint64_t{128} << 10;  // Less takes as long as its start.

// The second descriptor of a file, opened when it is first needed.
class DirectDescriptor {
 public:
  // `access`: O_RDONLY or O_WRONLY, and other flags of open().
  DirectDescriptor(std::string path, int access) : path_(std::move(path)), access_(access) {}

  // Or -1: the system refuses.
  int Number() const;
  // The file system has no such way, or not for this file, or not for blocks of this size.
  void NoteRefusal(std::string why) const;
  // Returns the reason in words, if it was refused; after Number().
  std::optional<std::string> refusal() const;
  // The file lies in memory, and there is nothing that would be gone past; after Number().
  bool is_in_memory() const { return is_in_memory_; }

 private:
  const std::string path_;
  const int access_;
  mutable std::once_flag once_;
  mutable Descriptor descriptor_{-1};
  mutable bool is_in_memory_ = false;
  mutable std::atomic<bool> is_refused_ = false;
  mutable std::mutex mutex_;  // Protects the next.
  mutable std::string refusal_;
};

class DirectReadableFile : public ReadableFile {
 public:
  explicit DirectReadableFile(std::unique_ptr<ReadableFile> file);

  const std::string& path() const override { return file_->path(); }
  std::uint64_t bytes() const override { return file_->bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

  const DirectDescriptor& direct() const { return direct_; }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const DirectDescriptor direct_;
};

class DirectWritableFile : public WritableFile {
 public:
  DirectWritableFile(std::unique_ptr<WritableFile> file, const std::string& path);

  llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override;
  // Nothing: bytes past the page cache are on their way, and writing the rest starts its own writeback.
  void StartWriteback(std::uint64_t, std::uint64_t) override {}
  llvm::Error Sync() override { return file_->Sync(); }
  llvm::Error Close() override { return file_->Close(); }

  const DirectDescriptor& direct() const { return direct_; }

 private:
  [[nodiscard]] llvm::Error WriteBuffered(std::uint64_t offset, std::span<const std::byte> bytes);

  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
  const DirectDescriptor direct_;
};

}  // namespace ucp
