// The commit protocol: how a folder of many files appears at its destination all at once, or not at all.
//
// A destination `parent/NAME` is prepared in the hidden folder `parent/.NAME.ucp-partial`, while the lock file
// `parent/.NAME.ucp-lock` is held. A journal beside it (journal.h) says what of the hidden folder a later run can go on
// from. These stay true at every moment, whatever call fails and wherever the power goes:
//
//   I1  The destination is as it was before, or the complete new folder. (Where the file system cannot exchange two
//       folders in one step, there is a moment in which it is missing; the old one is then `parent/.NAME.ucp-old`, and
//       the next run to the same destination puts it back.)
//   I2  Nothing is at the destination before it is durable.
//   I3  A hidden folder belongs to the process that holds the lock, and to the other ranks of its run, each of which
//       holds a lock of its own (ranks_folder.h). If nobody holds one, they are gone, and the next run to the same
//       destination continues the folder, if it was asked to and the journal vouches for it, and removes it
//       otherwise.
//   I4  Nothing that existed is removed before its replacement is durable at the destination.
//
// Steps:
//
//   S1  Look at the destination and its parent, and refuse unexpected ones: there is no point in writing
//       terabytes first.
//   S2  Take the lock; refuse if it is held, or one of another rank is (I3). Put back or remove what an earlier process
//       left, once the parent is synced: the folder at the destination may have got there just before that process
//       died (I4). The journal goes before the folder, so that it never speaks of a folder that is not there.
//   S3  Check the free space, and make the hidden folder; or find the earlier one. The caller fills it.
//   S4  Sync all files, then all folders, the hidden one last: names are durable only with their folder (I2). Where
//       they are many, and the file system can be relied on for it, it is synced as a whole instead (whole_sync.h).
//   S5  Rename the hidden folder to the destination; with --force, exchange the two (I1). Where inodes do not last, the
//       journal goes before the exchange (J3).
//   S6  Sync the parent. If that fails, S5 is undone, so that an error always means "not there".
//   S7  Remove the journal; with --force, remove the old folder, which now has the hidden name (I4). Release the lock.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/destination_names.h"
#include "compiler/support/parallel.h"
#include "runtime/commit/journal.h"
#include "runtime/commit/ranks_folder.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/sync.h"

namespace ucp {

struct StagingOptions {
  bool force = false;              // An existing folder at the destination may be replaced.
  std::uint64_t bytes_needed = 0;  // The bytes that will be written.
  std::string source = {};         // A folder that must survive: the destination may not be it, nor hold it.
  bool resume = false;             // Go on with the hidden folder of an earlier run, if the journal vouches for it.
  // Asked with `resume` when there is nothing to go on from: whether the destination already is the folder that would
  // be written, because the earlier run got as far as S6.
  std::function<llvm::Expected<bool>()> is_complete = {};
  int ranks = 1;  // How many fill the folder. One of them stages it; the others hold a part in it (ranks_folder.h).
};

class Staging {
 public:
  // S1 to S3. `files` must outlive the result. Codes: kUsage if the destination cannot be accepted, else kIo.
  static llvm::Expected<Staging> Begin(FileSystem& files, const std::string& destination,
                                       const StagingOptions& options);

  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  // If neither Commit() nor Abandon() came to an end, removes the hidden folder, unless a later run can continue it.
  ~Staging();

  // Returns the hidden folder, empty at first unless this run goes on.
  const std::string& folder() const { return folder_; }
  // Returns, with `resume`, the newest entry of each rank of the earlier run, which together are the progress of that
  // run. Then the first that is kept must hold all of them, and no other rank may keep anything before.
  const std::vector<std::string>& entries_before() const { return entries_before_; }
  // Returns whether, with `resume`, all was done before. Nothing is then to be filled or committed.
  bool is_complete() const { return is_complete_; }

  // Keeps the progress from which a later run can go on. All that `entry` vouches for must be durable.
  [[nodiscard]] llvm::Error Keep(const std::string& entry);
  // A later run can go on from here: this rank kept something, or another one did.
  bool is_kept() const;
  StagedFolder ForOtherRanks() const { return {folder_, ranks_.path(), folder_inode_, run_}; }
  const std::string& destination() const { return destination_; }
  // Returns how all was made durable, and why so. After Commit().
  const std::string& sync_choice() const { return syncer_->choice(); }

  // S4 to S7, once. After an error the destination is as it was; only an error that says that something old could not
  // be removed leaves the new folder in place.
  [[nodiscard]] llvm::Error Commit(const ParallelOptions& options);

  // Do the steps of Commit() one by one, where several folders are to appear together (P2 of run_destination.h).
  [[nodiscard]] llvm::Error MakeDurable(const ParallelOptions& options);  // S4
  [[nodiscard]] llvm::Error Appear();                                     // S5 and S6, undone if S6 fails.
  bool has_appeared() const { return is_committed_; }  // Also if S6 failed, and S5 could not be undone.
  bool Vanish();                                       // Undoes Appear(), if it can.
  [[nodiscard]] llvm::Error Finish();                  // S7

  // Removes the journal and the hidden folder.
  [[nodiscard]] llvm::Error Abandon();

 private:
  Staging(FileSystem& files, std::string destination);

  llvm::Error LookAtDestination(const StagingOptions& options);
  llvm::Error CheckDestination(const StagingOptions& options);
  llvm::Error FindEntries();
  llvm::Error CheckOthersAreGone();
  llvm::Error RemoveJournals();
  llvm::Error MakeFolder(const StagingOptions& options);
  llvm::Error CheckSourceSurvives(const FileStatus& destination, const std::string& source);
  llvm::Error CleanUpAfterDead();
  llvm::Error RemoveOld();
  llvm::Error Replace();
  llvm::Error SetAsideAndRename();
  bool PutBack();

  FileSystem* files_;
  std::string destination_;
  std::string parent_;
  std::string folder_;
  std::string old_folder_;  // Where an old folder waits if it cannot be exchanged.
  std::string lock_path_;
  Journal journal_;
  RanksFolder ranks_;
  std::optional<Syncer> syncer_;  // From before anything is written.
  std::vector<std::string> entries_before_;
  std::uint64_t folder_inode_ = 0;
  std::uint64_t run_ = 0;        // Of the entries that are kept from now on (J4).
  bool has_ranks_ = false;       // The folder of the other ranks may be there.
  bool unites_entries_ = false;  // Nothing was kept yet since entries of other ranks were found.
  bool is_complete_ = false;
  bool is_committed_ = false;  // S6 is done, or failed and could not be undone.
  bool replaces_ = false;      // There is a folder at the destination, and it may go.
  bool exchanged_ = false;     // The old folder has the hidden name.
  bool made_folder_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace ucp
