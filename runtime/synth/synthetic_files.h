// A file system in which some files are made of synthetic numbers, which are computed when they are read. So the
// executor makes a synthetic checkpoint by reading such files. Everything else is passed on to another file system.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
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

// Returns a file for each state of every tensor that a plan reads, all of them whole and in a file of their own. Fails
// as SyntheticValues::Make() does.
llvm::Expected<std::vector<SyntheticFile>> FilesToRead(const Plan& plan);

class SyntheticFileSystem : public FileSystem {
 public:
  SyntheticFileSystem(FileSystem& others, std::vector<SyntheticFile> files);

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;

  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path,
                                                                 std::uint64_t bytes) override {
    return others_.CreateForWriting(path, bytes);
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    return others_.OpenForWriting(path);
  }
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
  const SyntheticFile* Find(const std::string& path) const;

  FileSystem& others_;
  std::map<std::string, SyntheticFile> files_;  // By the whole path.
};

}  // namespace ucp
