// The operating system's file system. Every call here is one system call, or one loop around one.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"
#include "compiler/support/ongoing_calls.h"
#include "compiler/support/system_reason.h"
#include "runtime/storage/file_system.h"

namespace ucp {
namespace {

// Less than this is cheaper for the system to write when it likes: it is a file of its own, or seldom. Nor are blocks
// reserved for such a file.
constexpr std::uint64_t kLeastWriteback = std::uint64_t{64} << 10;

class RealWritableFile : public WritableFile {
 public:
  RealWritableFile(std::string path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const Ongoing ongoing("writing", path_);
    while (!bytes.empty()) {
      ssize_t count = Uninterrupted(
          [&] { return ::pwrite(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
      if (count < 0) {
        return Fail(ErrorCode::kIo, "cannot write `{}` at byte {}: {}", path_, offset, SystemReason(errno));
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return llvm::Error::success();
  }

  void StartWriteback(std::uint64_t offset, std::uint64_t bytes) override {
    if (bytes < kLeastWriteback) return;
    (void)::sync_file_range(descriptor_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                            SYNC_FILE_RANGE_WRITE);
  }

  llvm::Error Sync() override {
    if (Uninterrupted([&] { return ::fsync(descriptor_.number()); }) < 0) return SystemError("sync", path_, errno);
    return llvm::Error::success();
  }

  llvm::Error Close() override {
    // Linux releases the descriptor whatever close() answers, so EINTR is not an invitation to repeat it.
    if (::close(descriptor_.Release()) < 0 && errno != EINTR) return SystemError("close", path_, errno);
    return llvm::Error::success();
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

class RealFileLock : public FileLock {
 public:
  RealFileLock(std::string path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  ~RealFileLock() override { ::unlink(path_.c_str()); }  // While it is held: nobody else can have taken it.

 private:
  std::string path_;
  Descriptor descriptor_;
};

// Gives a new file its size, and its blocks where the file system can promise them.
int Reserve(const Descriptor& descriptor, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  if (!std::in_range<off_t>(bytes)) return EFBIG;
  auto size = static_cast<off_t>(bytes);
  if (Uninterrupted([&] { return ::ftruncate(descriptor.number(), size); }) < 0) return errno;
  if (bytes < kLeastWriteback) return 0;
  if (Uninterrupted([&] { return ::fallocate(descriptor.number(), 0, 0, size); }) < 0) {
    return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : errno;
  }
  return 0;
}

// Removes the entry `name` of the open folder `parent`. Symbolic links are removed and never followed. `path` is for
// messages. Recursion is as deep as the tree, which we made ourselves or which the user asked to replace.
llvm::Error RemoveEntry(int parent, const std::string& name, const std::string& path) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return llvm::Error::success();
  if (errno != EISDIR && errno != EPERM) return SystemError("remove", path, errno);

  Descriptor folder(
      Uninterrupted([&] { return ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  if (!folder.is_open()) return SystemError("remove", path, errno);
  int folder_number = folder.number();
  std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(folder_number), &::closedir);
  if (stream == nullptr) return SystemError("list", path, errno);
  folder.Release();  // The stream owns it now.

  // All names first: removing while reading a folder may skip entries.
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    std::string_view entry_name = entry->d_name;
    if (entry_name != "." && entry_name != "..") names.emplace_back(entry_name);
  }
  if (errno != 0) return SystemError("list", path, errno);
  for (const std::string& entry : names) {
    UCP_RETURN_IF_ERROR(RemoveEntry(folder_number, entry, JoinPath(path, entry)));
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) < 0 && errno != ENOENT) return SystemError("remove", path, errno);
  return llvm::Error::success();
}

class OperatingSystemFiles : public FileSystem {
 public:
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return RealFiles().OpenForReading(path);
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return RealFiles().Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return RealFiles().Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return RealFiles().List(path); }

  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    Descriptor descriptor = OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL);
    if (!descriptor.is_open()) return SystemError("create", path, errno);
    if (int error_number = Reserve(descriptor, bytes); error_number != 0) {
      ::unlink(path.c_str());
      return Fail(ErrorCode::kIo, "cannot reserve {} bytes for `{}`: {}", bytes, path, SystemReason(error_number));
    }
    return std::make_unique<RealWritableFile>(path, std::move(descriptor));
  }

  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    const Ongoing ongoing("opening", path);
    Descriptor descriptor = OpenDescriptor(path, O_WRONLY | O_NOFOLLOW);
    if (!descriptor.is_open()) return SystemError("open", path, errno);
    return std::make_unique<RealWritableFile>(path, std::move(descriptor));
  }

  llvm::Error MakeDirectory(const std::string& path) override {
    const Ongoing ongoing("making", path);
    if (::mkdir(path.c_str(), 0777) < 0) return SystemError("create folder", path, errno);
    return llvm::Error::success();
  }

  llvm::Error SyncDirectory(const std::string& path) override {
    Descriptor descriptor = OpenDescriptor(path, O_RDONLY | O_DIRECTORY);
    if (!descriptor.is_open()) return SystemError("open", path, errno);
    if (Uninterrupted([&] { return ::fsync(descriptor.number()); }) < 0) {
      // Some network file systems have nothing to sync in a folder and say so.
      if (errno != EINVAL) return SystemError("sync", path, errno);
    }
    return llvm::Error::success();
  }

  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder) override {
    return OpenRealWholeSync(folder);
  }

  llvm::Error Rename(const std::string& from, const std::string& to) override {
    const Ongoing ongoing("renaming", from);
    int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    if (result < 0 && (errno == EINVAL || errno == ENOSYS)) {
      // The file system cannot do it in one step. Nothing but an empty folder could be replaced between these two.
      UCP_ASSIGN_OR_RETURN(FileStatus status, Status(to));
      if (status.kind != PathKind::kMissing || status.is_link) return RenameError(from, to, EEXIST);
      result = ::rename(from.c_str(), to.c_str());
    }
    if (result < 0) return RenameError(from, to, errno);
    return llvm::Error::success();
  }

  llvm::Error Exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return llvm::Error::success();
    ErrorCode code = errno == EINVAL || errno == ENOSYS ? ErrorCode::kUnsupported : ErrorCode::kIo;
    return Fail(code, "cannot exchange `{}` and `{}`: {}", a, b, SystemReason(errno));
  }

  llvm::Error RemoveTree(const std::string& path) override { return RemoveEntry(AT_FDCWD, path, path); }

  llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) override {
    struct statvfs status{};
    if (::statvfs(directory.c_str(), &status) < 0) return SystemError("examine the file system of", directory, errno);
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }

  llvm::Expected<bool> IsWritable(const std::string& directory) override {
    if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return true;
    if (errno == EACCES || errno == EROFS || errno == EPERM) return false;
    return SystemError("examine", directory, errno);
  }

  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
    while (true) {
      Descriptor descriptor = OpenDescriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW);
      if (!descriptor.is_open()) return SystemError("create lock file", path, errno);
      if (Uninterrupted([&] { return ::flock(descriptor.number(), LOCK_EX | LOCK_NB); }) < 0) {
        if (errno == EWOULDBLOCK) return std::unique_ptr<FileLock>();
        return SystemError("lock", path, errno);
      }
      // Its last holder may have removed the file between our open and our lock; then this lock protects nothing.
      struct stat held{};
      struct stat named{};
      if (::fstat(descriptor.number(), &held) < 0) return SystemError("examine", path, errno);
      if (::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
        return std::make_unique<RealFileLock>(path, std::move(descriptor));
      }
    }
  }

 private:
  static llvm::Error RenameError(const std::string& from, const std::string& to, int error_number) {
    return Fail(ErrorCode::kIo, "cannot rename `{}` to `{}`: {}", from, to, SystemReason(error_number));
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static OperatingSystemFiles files;
  return files;
}

}  // namespace ucp
