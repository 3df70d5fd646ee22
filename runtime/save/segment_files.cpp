#include "runtime/save/segment_files.h"

#include <cstring>
#include <memory>

#include "compiler/support/error.h"

namespace ucp {

class SegmentFiles::File : public ReadableFile {
 public:
  File(std::string path, const Content& content, const std::atomic<std::uint64_t>& wave)
      : path_(std::move(path)), content_(content), wave_(wave) {}

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return content_.bytes; }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset > bytes() || buffer.size() > bytes() - offset) {
      return Fail(ErrorCode::kBadData, "`{}` ends at byte {}, before {}", path_, bytes(), offset + buffer.size());
    }
    if (content_.remote != nullptr) return content_.remote->Read(offset, buffer);
    if (buffer.empty()) return llvm::Error::success();
    if (content_.memory.empty()) {
      std::memset(buffer.data(), 0, buffer.size());
      return llvm::Error::success();
    }
    const std::uint64_t first = content_.waves.WaveOf(offset);
    const std::uint64_t last = content_.waves.WaveOf(offset + buffer.size() - 1);
    if (content_.waves.count > 1 && (first != last || first != wave_)) {
      return Fail(ErrorCode::kBadData, "`{}` has bytes {} to {} in wave {}, and wave {} is staged", path_, offset,
                  offset + buffer.size(), last, wave_.load());
    }
    const std::uint64_t place = content_.waves.PlaceOf(offset);
    if (place > content_.memory.size() || buffer.size() > content_.memory.size() - place) {
      return Fail(ErrorCode::kBadData, "`{}` has {} bytes in wave {}, and not {} from {} on", path_,
                  content_.memory.size(), first, buffer.size(), place);
    }
    std::memcpy(buffer.data(), content_.memory.data() + place, buffer.size());
    return llvm::Error::success();
  }

 private:
  const std::string path_;
  const Content content_;
  const std::atomic<std::uint64_t>& wave_;
};

void SegmentFiles::Add(const std::string& name, std::span<const std::byte> memory) {
  contents_.insert_or_assign(JoinPath(folder_, name), Content{memory.size(), memory, nullptr, {}});
}

void SegmentFiles::Add(const std::string& name, std::span<const std::byte> memory, const StagingWaves& waves) {
  contents_.insert_or_assign(JoinPath(folder_, name), Content{waves.count * waves.window, memory, nullptr, waves});
}

void SegmentFiles::Add(const std::string& name, const RemoteMemory& memory, std::uint64_t bytes) {
  contents_.insert_or_assign(JoinPath(folder_, name), Content{bytes, {}, &memory, {}});
}

void SegmentFiles::AddZeros(const std::string& name, std::uint64_t bytes) {
  contents_.insert_or_assign(JoinPath(folder_, name), Content{bytes, {}, nullptr, {}});
}

void SegmentFiles::Remove(const std::string& name) { contents_.erase(JoinPath(folder_, name)); }

const SegmentFiles::Content* SegmentFiles::Find(const std::string& path) const {
  const auto found = contents_.find(path);
  return found == contents_.end() ? nullptr : &found->second;
}

llvm::Expected<std::unique_ptr<ReadableFile>> SegmentFiles::OpenForReading(const std::string& path) {
  if (const Content* content = Find(path)) return std::make_unique<File>(path, *content, wave_);
  return files().OpenForReading(path);
}

llvm::Expected<PathKind> SegmentFiles::Kind(const std::string& path) {
  if (Find(path) != nullptr) return PathKind::kFile;
  return files().Kind(path);
}

llvm::Expected<FileStatus> SegmentFiles::Status(const std::string& path) {
  const Content* content = Find(path);
  if (content == nullptr) return files().Status(path);
  FileStatus status;
  status.kind = PathKind::kFile;
  status.bytes = content->bytes;
  return status;
}

}  // namespace ucp
