#include "tests/fuzz/memory_files.h"

#include <cstring>

#include "compiler/support/error.h"

namespace ucp::fuzz {
namespace {

class Bytes : public ReadableFile {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return bytes_.size(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset > bytes_.size() || buffer.size() > bytes_.size() - offset) {
      return Fail(ErrorCode::kBadData, "bytes {} to {} of {}", offset, offset + buffer.size(), bytes_.size());
    }
    if (!buffer.empty()) std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    return llvm::Error::success();
  }

 private:
  std::string path_ = "fuzz.pt";
  std::string_view bytes_;
};

}  // namespace

std::unique_ptr<ReadableFile> MemoryFile(std::string_view bytes) { return std::make_unique<Bytes>(bytes); }

llvm::Expected<std::unique_ptr<ReadableFile>> OneFileReplaced::OpenForReading(const std::string& path) {
  if (path == path_) return MemoryFile(bytes_);
  return CountingFileSystem::OpenForReading(path);
}

llvm::Expected<FileStatus> OneFileReplaced::Status(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FileStatus status, CountingFileSystem::Status(path));
  if (path == path_) status.bytes = bytes_.size();
  return status;
}

llvm::Expected<std::vector<DirectoryEntry>> OneFileReplaced::List(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, CountingFileSystem::List(path));
  for (DirectoryEntry& entry : entries) {
    if (JoinPath(path, entry.name) == path_) entry.bytes = bytes_.size();
  }
  return entries;
}

}  // namespace ucp::fuzz
