// The file system as this project uses it: positioned reads, positioned writes into files of a known size, directories,
// and the calls that a safe commit needs. An interface, so that tests can make every call fail in turn.
//
// All functions are safe to call from several threads; the objects they return are too. Errors name the path, the call
// and the operating system's reason, and have the code kIo (kBadData where a file ends too early).
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/whole_sync.h"

namespace ucp {

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  virtual std::uint64_t bytes() const = 0;
  // Fills `buffer` from `offset` on; a file that ends before is an error. Short reads and EINTR are continued.
  [[nodiscard]] virtual llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const = 0;
  // A hint: these bytes are read soon, and the operating system may begin to fetch them from the device.
  virtual void StartReading(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {}
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  [[nodiscard]] virtual llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // A hint: these bytes are final, and the operating system may begin to write them to the device.
  virtual void StartWriteback(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
  // Durable when this returns.
  [[nodiscard]] virtual llvm::Error Sync() = 0;
  [[nodiscard]] virtual llvm::Error Close() = 0;
};

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  std::uint64_t bytes = 0;  // Of a regular file.
  bool is_link = false;     // A symbolic link, perhaps to nothing.
};

enum class PathKind { kMissing, kFile, kDirectory, kOther };

struct FileStatus {
  PathKind kind = PathKind::kMissing;  // Of what the path leads to.
  bool is_link = false;                // The path itself is a symbolic link, perhaps to nothing.
  std::uint64_t bytes = 0;             // Of a regular file.
  std::uint64_t device = 0;            // Differs between a folder and its parent where something is mounted.
  std::uint64_t inode = 0;             // With the device: which file or folder this is, whatever its path.
  std::int64_t modified_nanoseconds = 0;
  bool inode_lasts = true;  // Otherwise another one may be made up for it later, and this one for another.
  // Of a link: where it ends, as an absolute path without links; what is written in it, if nothing is there.
  std::string leads_to = {};
};

// An exclusive lock on a file, held until destroyed or until the process ends. Destroying it removes the file.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) = 0;
  // Creates a file that must not exist and gives it its final size.
  virtual llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                         std::uint64_t bytes) = 0;
  // Opens a file that was created before, and keeps its size.
  virtual llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) = 0;

  virtual llvm::Expected<PathKind> Kind(const std::string& path) = 0;  // Follows symbolic links.
  virtual llvm::Expected<FileStatus> Status(const std::string& path) = 0;
  // Sorted by name. Symbolic links count as what they lead to.
  virtual llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) = 0;

  [[nodiscard]] virtual llvm::Error MakeDirectory(const std::string& path) = 0;  // It must not exist; its parent must.
  [[nodiscard]] virtual llvm::Error SyncDirectory(const std::string& path) = 0;
  // For all of the file system that holds `folder`. Fails with kUnsupported and the reason where there is no such call,
  // or none that can be relied on.
  virtual llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder);
  [[nodiscard]] virtual llvm::Error Rename(const std::string& from, const std::string& to) = 0;  // `to` must not exist.
  // Swaps two paths that both exist, in one step; kUnsupported where the file system cannot.
  [[nodiscard]] virtual llvm::Error Exchange(const std::string& a, const std::string& b) = 0;
  // Removes a file or a folder with all it holds, and no target of a symbolic link. Missing is fine.
  [[nodiscard]] virtual llvm::Error RemoveTree(const std::string& path) = 0;

  virtual llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) = 0;
  virtual llvm::Expected<bool> IsWritable(const std::string& directory) = 0;  // May this process create entries?
  // A null pointer if it is held already. Creates the file.
  virtual llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) = 0;
};

// The operating system's file system.
FileSystem& RealFileSystem();

// Reads a whole file of at most `limit` bytes.
llvm::Expected<std::string> ReadWholeFile(FileSystem& files, const std::string& path, std::uint64_t limit);

// "a/b" from "a" and "b".
std::string JoinPath(const std::string& directory, const std::string& name);

}  // namespace ucp
