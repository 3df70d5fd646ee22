// The interface for reading: positioned reads of a file, and the status of a path. The files may lie on this node or on
// others, be computed, or fail in a test.
//
// All functions may be called from several threads, and so may those of the objects that they return. Errors name the
// path, the call and the operating system's reason, and have the code kIo. A file that ends too early is kBadData.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ucp {

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  virtual std::uint64_t bytes() const = 0;
  // Fills all of `buffer` with the bytes from `offset` on. A file that ends before that is an error (kBadData) that
  // names the byte at which it ends and how many more were expected; `buffer` then holds anything. Short reads of the
  // operating system, and reads that a signal interrupted, are continued.
  [[nodiscard]] virtual llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const = 0;
  // Hints that these bytes are read soon, so that the operating system may begin to fetch them. Never fails.
  virtual void StartReading(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {}
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

class ReadableFileSystem {
 public:
  virtual ~ReadableFileSystem() = default;

  virtual llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) = 0;
  virtual llvm::Expected<PathKind> Kind(const std::string& path) = 0;  // Follows symbolic links.
  virtual llvm::Expected<FileStatus> Status(const std::string& path) = 0;
  // Returns the entries of a folder, sorted by name. A symbolic link has the kind of the file that it leads to.
  virtual llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) = 0;
};

// Returns the operating system's files, and what packed parts of them hold (unpacked_file.h).
ReadableFileSystem& RealFiles();

// Reads a whole file. Fails with kBadData if it has more than `limit` bytes, and as ReadAt() does.
llvm::Expected<std::string> ReadWholeFile(ReadableFileSystem& files, const std::string& path, std::uint64_t limit);

// Makes "a/b" of "a" and "b".
std::string JoinPath(const std::string& directory, const std::string& name);

}  // namespace ucp
