// The file system as this project uses it: what is read (readable_file_system.h), positioned writes into files of a
// known size, directories, and the calls that a safe commit needs. An interface, so that tests can make every call fail
// in turn.
//
// All functions are safe to call from several threads; the objects they return are too. Errors name the path, the call
// and the operating system's reason, and have the code kIo.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "runtime/storage/whole_sync.h"

namespace ucp {

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

// An exclusive lock on a file, held until destroyed or until the process ends. Destroying it removes the file.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem : public ReadableFileSystem {
 public:
  // Creates a file that must not exist and gives it its final size.
  virtual llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                         std::uint64_t bytes) = 0;
  // Opens a file that was created before, and keeps its size.
  virtual llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) = 0;

  [[nodiscard]] virtual llvm::Error MakeDirectory(const std::string& path) = 0;  // It must not exist; its parent must.
  [[nodiscard]] virtual llvm::Error SyncDirectory(const std::string& path) = 0;
  // Opens a sync of all of the file system that holds `folder`. Fails with kUnsupported and the reason where there is
  // no such call, or none that can be relied on.
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

// Returns the operating system's file system.
FileSystem& RealFileSystem();

}  // namespace ucp
