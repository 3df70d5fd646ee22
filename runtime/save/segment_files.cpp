#include "runtime/save/segment_files.h"

#include <cstring>
#include <memory>

#include "compiler/support/error.h"

namespace ucp {

class SegmentFiles::File : public ReadableFile {
 public:
  File(std::string path, std::span<const std::byte> memory) : path_(std::move(path)), memory_(memory) {}

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return memory_.size(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset > memory_.size() || buffer.size() > memory_.size() - offset) {
      return Fail(ErrorCode::kBadData, "`{}` ends at byte {}, before {}", path_, memory_.size(),
                  offset + buffer.size());
    }
    if (!buffer.empty()) std::memcpy(buffer.data(), memory_.data() + offset, buffer.size());
    return llvm::Error::success();
  }

 private:
  const std::string path_;
  const std::span<const std::byte> memory_;
};

void SegmentFiles::Add(const std::string& name, std::span<const std::byte> memory) {
  memory_.insert_or_assign(JoinPath(folder_, name), memory);
}

const std::span<const std::byte>* SegmentFiles::Find(const std::string& path) const {
  const auto found = memory_.find(path);
  return found == memory_.end() ? nullptr : &found->second;
}

llvm::Expected<std::unique_ptr<ReadableFile>> SegmentFiles::OpenForReading(const std::string& path) {
  if (const auto* memory = Find(path)) return std::make_unique<File>(path, *memory);
  return files().OpenForReading(path);
}

llvm::Expected<PathKind> SegmentFiles::Kind(const std::string& path) {
  if (Find(path) != nullptr) return PathKind::kFile;
  return files().Kind(path);
}

llvm::Expected<FileStatus> SegmentFiles::Status(const std::string& path) {
  const auto* memory = Find(path);
  if (memory == nullptr) return files().Status(path);
  FileStatus status;
  status.kind = PathKind::kFile;
  status.bytes = memory->size();
  return status;
}

}  // namespace ucp
