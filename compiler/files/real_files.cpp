// The operating system's files, to read. Every call here is one system call, or one loop around one.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/files/lasting_inodes.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/files/unpacking_files.h"
#include "compiler/support/error.h"
#include "compiler/support/ongoing_calls.h"

namespace ucp {
namespace {

class RealReadableFile : public ReadableFile {
 public:
  RealReadableFile(std::string path, Descriptor descriptor, std::uint64_t bytes)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), bytes_(bytes) {}

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return bytes_; }

  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    const Ongoing ongoing("reading", path_);
    while (!buffer.empty()) {
      ssize_t count = Uninterrupted(
          [&] { return ::pread(descriptor_.number(), buffer.data(), buffer.size(), static_cast<off_t>(offset)); });
      if (count < 0) return ReadingError(path_, offset, errno);
      if (count == 0) {
        struct stat now{};
        const bool is_shorter =
            ::fstat(descriptor_.number(), &now) == 0 && static_cast<std::uint64_t>(now.st_size) < bytes_;
        if (is_shorter) {
          return Fail(ErrorCode::kBadData,
                      "`{}` had {} bytes when it was opened and has {} now: it was cut off meanwhile", path_, bytes_,
                      now.st_size);
        }
        return Fail(ErrorCode::kBadData, "`{}` ends at byte {}, and {} more bytes were expected there", path_, offset,
                    buffer.size());
      }
      buffer = buffer.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return llvm::Error::success();
  }

  void StartReading(std::uint64_t offset, std::uint64_t bytes) const override {
    ::posix_fadvise(descriptor_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  std::uint64_t bytes_;
};

PathKind KindOf(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return PathKind::kFile;
  if (S_ISDIR(status.st_mode)) return PathKind::kDirectory;
  return PathKind::kOther;
}

bool IsMissing(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

// The entry under a name that a folder was read to have. A link to nothing is an entry of no kind; what vanished
// meanwhile is none. `type` is what reading the folder said of it.
llvm::Expected<std::optional<DirectoryEntry>> Examine(int folder, const std::string& path, const std::string& name,
                                                      unsigned char type) {
  DirectoryEntry entry{.name = name, .is_link = type == DT_LNK};
  struct stat status{};
  if (type == DT_UNKNOWN && ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    entry.is_link = S_ISLNK(status.st_mode);
  }
  if (::fstatat(folder, name.c_str(), &status, 0) < 0) {
    if (!IsMissing(errno)) return SystemError("examine", JoinPath(path, name), errno);
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) {
      if (!IsMissing(errno)) return SystemError("examine", JoinPath(path, name), errno);
      return std::nullopt;
    }
    if (S_ISLNK(status.st_mode)) return entry;
  }
  entry.is_directory = S_ISDIR(status.st_mode);
  if (S_ISREG(status.st_mode)) entry.bytes = static_cast<std::uint64_t>(status.st_size);
  return entry;
}

// FileStatus::leads_to
std::string EndOfLink(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> end(::realpath(path.c_str(), nullptr), &std::free);
  if (end != nullptr) return end.get();
  std::string text(PATH_MAX, '\0');
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
  text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return text;
}

class OperatingSystemReads : public ReadableFileSystem {
 public:
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    const Ongoing ongoing("opening", path);
    // Without O_NONBLOCK, opening a pipe that a hostile checkpoint holds would wait for ever.
    Descriptor descriptor = OpenDescriptor(path, O_RDONLY | O_NONBLOCK);
    if (!descriptor.is_open()) return SystemError("open", path, errno);
    struct stat status{};
    if (::fstat(descriptor.number(), &status) < 0) return SystemError("examine", path, errno);
    if (!S_ISREG(status.st_mode)) return Fail(ErrorCode::kBadData, "`{}` is not a regular file", path);
    return std::make_unique<RealReadableFile>(path, std::move(descriptor), static_cast<std::uint64_t>(status.st_size));
  }

  llvm::Expected<PathKind> Kind(const std::string& path) override {
    const Ongoing ongoing("examining", path);
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0) return KindOf(status);
    if (IsMissing(errno)) return PathKind::kMissing;
    return SystemError("examine", path, errno);
  }

  llvm::Expected<FileStatus> Status(const std::string& path) override {
    const Ongoing ongoing("examining", path);
    FileStatus result;
    struct stat status{};
    if (::lstat(path.c_str(), &status) < 0) {
      if (IsMissing(errno)) return result;
      return SystemError("examine", path, errno);
    }
    result.is_link = S_ISLNK(status.st_mode);
    if (result.is_link) result.leads_to = EndOfLink(path);
    if (result.is_link && ::stat(path.c_str(), &status) < 0) {
      if (IsMissing(errno)) return result;
      return SystemError("examine", path, errno);
    }
    result.kind = KindOf(status);
    result.bytes = result.kind == PathKind::kFile ? static_cast<std::uint64_t>(status.st_size) : 0;
    result.device = status.st_dev;
    result.inode = status.st_ino;
    result.inode_lasts = lasting_inodes_.On(status.st_dev, path);
    if (result.kind == PathKind::kFile && !result.inode_lasts) result.inode = kFleetingInode;
    result.modified_nanoseconds =
        static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
    return result;
  }

  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override {
    const Ongoing ongoing("listing", path);
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()), &::closedir);
    if (stream == nullptr) return SystemError("list", path, errno);
    std::vector<DirectoryEntry> entries;
    const dirent* entry = nullptr;
    while ((errno = 0, entry = ::readdir(stream.get())) != nullptr) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      UCP_ASSIGN_OR_RETURN(std::optional<DirectoryEntry> examined,
                           Examine(::dirfd(stream.get()), path, name, entry->d_type));
      if (examined) entries.push_back(std::move(*examined));
    }
    if (errno != 0) return SystemError("list", path, errno);
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

 private:
  LastingInodes lasting_inodes_;
};

}  // namespace

ReadableFileSystem& RealFiles() {
  static OperatingSystemReads files;
  static UnpackingFiles with_unpacked(files);
  return with_unpacked;
}

}  // namespace ucp
