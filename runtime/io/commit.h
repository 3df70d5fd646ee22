// The commit protocol: how a folder of many files appears at its destination all at once, or not at all.
//
// A destination `parent/NAME` is prepared in the hidden folder `parent/.NAME.ucp-partial`, while the lock file
// `parent/.NAME.ucp-lock` is held. What must stay true at every moment, whatever call fails and wherever the power
// goes:
//
//   I1  The destination is what it was before, or the complete new folder. (Where the file system cannot exchange two
//       folders in one step, there is a moment in which it is missing; the old one is then `parent/.NAME.ucp-old`, and
//       the next run to the same destination puts it back.)
//   I2  Nothing is at the destination before it is durable.
//   I3  A hidden folder belongs to the process that holds the lock. If nobody holds it, its process is dead, and the
//       next run to the same destination removes the folder.
//   I4  Nothing that existed is removed before what replaces it is durable at the destination.
//
// Steps:
//
//   S1  Look at the destination and its parent, and refuse what would surprise: there is no point in writing terabytes
//       first.
//   S2  Take the lock; refuse if it is held (I3). Put back or remove what a dead process left.
//   S3  Check the free space, and make the hidden folder. The caller fills it.
//   S4  Sync all files, then all folders, the hidden one last: names are durable only with their folder (I2).
//   S5  Rename the hidden folder to the destination; with --force, exchange the two (I1).
//   S6  Sync the parent. If that fails, S5 is undone, so that an error always means "not there".
//   S7  With --force, remove the old folder, which now has the hidden name (I4). Release the lock.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/io/file_system.h"
#include "runtime/io/parallel.h"

namespace ucp {

struct StagingOptions {
  bool force = false;              // An existing folder at the destination may be replaced.
  std::uint64_t bytes_needed = 0;  // What will be written.
  std::string source = {};         // A folder that must survive: the destination may not be it, nor hold it.
};

class Staging {
 public:
  // S1 to S3. `files` must outlive the result. Codes: kUsage if the destination cannot be accepted, else kIo.
  static llvm::Expected<Staging> Begin(FileSystem& files, const std::string& destination,
                                       const StagingOptions& options);

  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  // Removes the hidden folder if neither Commit() nor Abandon() came to an end.
  ~Staging();

  // The hidden folder, empty at first.
  const std::string& folder() const { return folder_; }
  const std::string& destination() const { return destination_; }

  // S4 to S7, once. After an error the destination is what it was, and Abandon() or the destructor removes the rest;
  // only an error that says that the old folder could not be removed leaves the new one in place.
  [[nodiscard]] llvm::Error Commit(const ParallelOptions& options);

  // Removes the hidden folder.
  [[nodiscard]] llvm::Error Abandon();

 private:
  Staging(FileSystem& files, std::string destination);

  llvm::Error CheckDestination(const StagingOptions& options);
  llvm::Error CheckSourceSurvives(const FileStatus& destination, const std::string& source);
  llvm::Error CleanUpAfterDead();
  llvm::Error SyncContents(const ParallelOptions& options);
  llvm::Error Replace();
  llvm::Error SetAsideAndRename();
  void PutBack();

  FileSystem* files_;
  std::string destination_;
  std::string parent_;
  std::string folder_;
  std::string old_folder_;  // Where an old folder waits if it cannot be exchanged.
  std::string lock_path_;
  bool replaces_ = false;   // There is a folder at the destination, and it may go.
  bool exchanged_ = false;  // The old folder has the hidden name.
  bool made_folder_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace ucp
