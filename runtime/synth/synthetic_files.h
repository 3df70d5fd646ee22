// A file system in which some files are made of synthetic numbers: what is read from them is computed, and what is
// written to them is compared with what it should be. So the executor makes a synthetic checkpoint by reading such
// files, and checks one by writing them. All else is passed on to another file system.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/storage/file_system.h"
#include "runtime/synth/synthetic_value.h"

namespace ucp {

// No path of another file begins so: `/dev/null` is not a folder.
inline constexpr const char* kSyntheticFolder = "/dev/null/synthetic";

// One tensor in one state, whole and row-major, is a file.
struct SyntheticFile {
  std::string path;  // Below kSyntheticFolder.
  SyntheticValues values;
  std::int64_t elements = 0;
};

// A file for each state of everything that a plan reads, or writes: whole tensors, each state in a file of its own.
// Fails as SyntheticValues::Make() does.
llvm::Expected<std::vector<SyntheticFile>> FilesToRead(const Plan& plan);
llvm::Expected<std::vector<SyntheticFile>> FilesToWrite(const Plan& plan);

// Elements that were written wrongly.
struct WrongElements {
  std::uint64_t count = 0;
  std::int64_t first = 0;      // The smallest number in the whole tensor.
  std::vector<std::byte> was;  // That element as it was written, and as it should be.
  std::vector<std::byte> should_be;
};

class SyntheticFileSystem : public FileSystem {
 public:
  SyntheticFileSystem(FileSystem& others, std::vector<SyntheticFile> files);

  // By the path of a file. Call when all is written.
  const std::map<std::string, WrongElements>& wrong() const { return wrong_; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path, std::uint64_t bytes) override;
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;

  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return others_.List(path); }
  llvm::Error MakeDirectory(const std::string& path) override { return others_.MakeDirectory(path); }
  llvm::Error SyncDirectory(const std::string& path) override { return others_.SyncDirectory(path); }
  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& path) override {
    return others_.OpenWholeSync(path);
  }
  llvm::Error Rename(const std::string& from, const std::string& to) override { return others_.Rename(from, to); }
  llvm::Error Exchange(const std::string& a, const std::string& b) override { return others_.Exchange(a, b); }
  llvm::Error RemoveTree(const std::string& path) override { return others_.RemoveTree(path); }
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& path) override { return others_.FreeBytes(path); }
  llvm::Expected<bool> IsWritable(const std::string& path) override { return others_.IsWritable(path); }
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override { return others_.TryLock(path); }

 private:
  class Computed;
  class Compared;
  const SyntheticFile* Find(const std::string& path) const;

  FileSystem& others_;
  std::map<std::string, SyntheticFile> files_;  // By the whole path.
  std::mutex mutex_;                            // Protects what follows.
  std::map<std::string, WrongElements> wrong_;
};

}  // namespace ucp
