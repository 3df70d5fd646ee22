#include "runtime/synth/synthetic_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

std::uint64_t BytesOf(const SyntheticFile& file) {
  return static_cast<std::uint64_t>(file.elements * ItemBytes(file.values.dtype()));
}

// Calls `visit(offset, bytes)` with what the file holds there, block by block. Blocks begin at multiples of their size,
// and so at elements, whatever is asked for.
template <typename Visit>
void ForEachBlock(const SyntheticFile& file, std::uint64_t offset, std::uint64_t bytes, Visit visit) {
  std::array<std::byte, kBlockBytes> block;
  const auto item_bytes = static_cast<std::uint64_t>(ItemBytes(file.values.dtype()));
  for (std::uint64_t at = offset; at < offset + bytes;) {
    const std::uint64_t begin = at / kBlockBytes * kBlockBytes;
    const std::uint64_t end = std::min(begin + kBlockBytes, BytesOf(file));
    const std::span<std::byte> whole(block.data(), end - begin);
    file.values.Fill(static_cast<std::int64_t>(begin / item_bytes), whole);
    const std::uint64_t stop = std::min(end, offset + bytes);
    visit(at, std::span<const std::byte>(whole).subspan(at - begin, stop - at));
    at = stop;
  }
}

llvm::Error CheckRange(const SyntheticFile& file, const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  if (offset <= BytesOf(file) && bytes <= BytesOf(file) - offset) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and {} from {} on were asked for", path, BytesOf(file), bytes,
              offset);
}

}  // namespace

llvm::Expected<std::vector<SyntheticFile>> FilesToRead(const Plan& plan) {
  std::vector<SyntheticFile> files;
  for (const PlanRead& read : plan.reads) {
    const std::string& tensor = plan.tensor(read.tensor).logical.name;
    for (const StateBuffer& entry : plan.source.buffer_set(read.states)) {
      const Buffer& buffer = plan.source.buffer(entry.buffer);
      UCP_ASSIGN_OR_RETURN(SyntheticValues values, SyntheticValues::Make(tensor, entry.state, buffer.dtype));
      files.push_back({plan.source.file(buffer.parts.front().record).path, values, buffer.part_elements});
    }
  }
  return files;
}

class SyntheticFileSystem::Computed : public ReadableFile {
 public:
  Computed(const SyntheticFile& file, std::string path) : file_(file), path_(std::move(path)) {}
  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return BytesOf(file_); }

  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    UCP_RETURN_IF_ERROR(CheckRange(file_, path_, offset, buffer.size()));
    const auto item_bytes = static_cast<std::uint64_t>(ItemBytes(file_.values.dtype()));
    if (offset % item_bytes == 0 && buffer.size() % item_bytes == 0) {
      file_.values.Fill(static_cast<std::int64_t>(offset / item_bytes), buffer);
      return llvm::Error::success();
    }
    ForEachBlock(file_, offset, buffer.size(), [&](std::uint64_t at, std::span<const std::byte> bytes) {
      std::memcpy(buffer.data() + (at - offset), bytes.data(), bytes.size());
    });
    return llvm::Error::success();
  }

 private:
  const SyntheticFile& file_;
  const std::string path_;
};

SyntheticFileSystem::SyntheticFileSystem(FileSystem& others, std::vector<SyntheticFile> files) : others_(others) {
  for (SyntheticFile& file : files) {
    std::string path = JoinPath(kSyntheticFolder, file.path);
    files_.emplace(std::move(path), std::move(file));
  }
}

const SyntheticFile* SyntheticFileSystem::Find(const std::string& path) const {
  auto file = files_.find(path);
  return file == files_.end() ? nullptr : &file->second;
}

llvm::Expected<std::unique_ptr<ReadableFile>> SyntheticFileSystem::OpenForReading(const std::string& path) {
  if (const SyntheticFile* file = Find(path)) return std::make_unique<Computed>(*file, path);
  return others_.OpenForReading(path);
}

llvm::Expected<PathKind> SyntheticFileSystem::Kind(const std::string& path) {
  if (Find(path) != nullptr) return PathKind::kFile;
  return others_.Kind(path);
}

llvm::Expected<FileStatus> SyntheticFileSystem::Status(const std::string& path) {
  const SyntheticFile* file = Find(path);
  if (file == nullptr) return others_.Status(path);
  FileStatus status;
  status.kind = PathKind::kFile;
  status.bytes = BytesOf(*file);
  return status;
}

}  // namespace ucp
