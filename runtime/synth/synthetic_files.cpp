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

// `shards` are PlanReads or PlanWrites.
template <typename Shards>
llvm::Expected<std::vector<SyntheticFile>> FilesOf(const Plan& plan, const StorageTables& tables,
                                                   const Shards& shards) {
  std::vector<SyntheticFile> files;
  for (const auto& shard : shards) {
    const std::string& tensor = plan.tensor(shard.tensor).logical.name;
    for (const StateBuffer& entry : tables.buffer_set(shard.states)) {
      const Buffer& buffer = tables.buffer(entry.buffer);
      UCP_ASSIGN_OR_RETURN(SyntheticValues values, SyntheticValues::Make(tensor, entry.state, buffer.dtype));
      files.push_back({tables.file(buffer.parts.front().record).path, values, buffer.part_elements});
    }
  }
  return files;
}

}  // namespace

llvm::Expected<std::vector<SyntheticFile>> FilesToRead(const Plan& plan) {
  return FilesOf(plan, plan.source, plan.reads);
}

llvm::Expected<std::vector<SyntheticFile>> FilesToWrite(const Plan& plan) {
  return FilesOf(plan, plan.target, plan.writes);
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

class SyntheticFileSystem::Compared : public WritableFile {
 public:
  Compared(SyntheticFileSystem& files, const SyntheticFile& file, std::string path)
      : files_(files), file_(file), path_(std::move(path)) {}

  llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    UCP_RETURN_IF_ERROR(CheckRange(file_, path_, offset, bytes.size()));
    ForEachBlock(file_, offset, bytes.size(), [&](std::uint64_t at, std::span<const std::byte> should_be) {
      const std::span<const std::byte> was = bytes.subspan(at - offset, should_be.size());
      if (std::memcmp(was.data(), should_be.data(), was.size()) != 0) Note(at, was, should_be);
    });
    return llvm::Error::success();
  }
  llvm::Error Sync() override { return llvm::Error::success(); }
  llvm::Error Close() override { return llvm::Error::success(); }

 private:
  // Chunks of a target are whole elements.
  void Note(std::uint64_t offset, std::span<const std::byte> was, std::span<const std::byte> should_be) {
    const auto item_bytes = static_cast<std::size_t>(ItemBytes(file_.values.dtype()));
    WrongElements here;
    for (std::size_t i = 0; i + item_bytes <= was.size(); i += item_bytes) {
      const auto a = was.subspan(i, item_bytes);
      const auto b = should_be.subspan(i, item_bytes);
      if (std::equal(a.begin(), a.end(), b.begin())) continue;
      if (here.count++ > 0) continue;
      here.first = static_cast<std::int64_t>((offset + i) / item_bytes);
      here.was.assign(a.begin(), a.end());
      here.should_be.assign(b.begin(), b.end());
    }
    std::scoped_lock lock(files_.mutex_);
    WrongElements& all = files_.wrong_[file_.path];
    const std::uint64_t count = all.count + here.count;
    if (all.count == 0 || here.first < all.first) all = std::move(here);
    all.count = count;
  }

  SyntheticFileSystem& files_;
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

llvm::Expected<std::unique_ptr<WritableFile>> SyntheticFileSystem::CreateForWriting(const std::string& path,
                                                                                    std::uint64_t bytes) {
  if (Find(path) != nullptr) return OpenForWriting(path);
  return others_.CreateForWriting(path, bytes);
}

llvm::Expected<std::unique_ptr<WritableFile>> SyntheticFileSystem::OpenForWriting(const std::string& path) {
  if (const SyntheticFile* file = Find(path)) return std::make_unique<Compared>(*this, *file, path);
  return others_.OpenForWriting(path);
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
