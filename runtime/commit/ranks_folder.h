// Files that the ranks of one run have of their own beside the hidden folder that they fill together (commit.h), all
// but rank 0: in `parent/.NAME.ucp-ranks`, rank R holds the lock `lock-R` while it works, and keeps the journal
// `journal-R-0` and `-1`, of its own work in this run.
//
//   J4  The progress to go on from is the newest entry of rank 0 and, of every other rank, its newest entry, if that
//       is of the same run; where rank 0 has none, of run 0. A run that goes on is the next run: it begins with an
//       entry of rank 0 that holds all of these, and only then do the other ranks keep entries of it. So nothing counts
//       twice, however many ranks each run has and wherever one is stopped.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/commit/journal.h"
#include "runtime/storage/file_system.h"

namespace ucp {

// The folder, as rank 0 sees it.
class RanksFolder {
 public:
  RanksFolder(FileSystem& files, std::string path) : files_(&files), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  llvm::Expected<bool> IsThere() const;
  [[nodiscard]] llvm::Error Make() { return files_->MakeDirectory(path_); }
  [[nodiscard]] llvm::Error Remove() { return files_->RemoveTree(path_); }

  // Returns the path of a lock that a living process holds; empty if there is none.
  llvm::Expected<std::string> HeldLock() const;
  // Returns the entries by rank. Entries about other folders and of other runs do not count.
  llvm::Expected<std::vector<std::string>> FindEntries(std::uint64_t folder_inode, std::uint64_t run) const;
  bool HasEntries() const;  // Of whatever run; true if it cannot be told.
  [[nodiscard]] llvm::Error RemoveEntries();

 private:
  FileSystem* files_;
  std::string path_;
};

// The description of a folder that rank 0 has staged, for the other ranks.
struct StagedFolder {
  std::string folder;
  std::string ranks_folder;
  std::uint64_t inode = 0;  // Of `folder`.
  std::uint64_t run = 0;
};

// Another rank's part in it, held until this is destroyed: destroy it once the rank has written its last byte, and
// before rank 0 commits or removes anything.
class RankPart {
 public:
  static llvm::Expected<RankPart> Take(FileSystem& files, const StagedFolder& staged, int rank);

  // Keeps, as Staging::Keep(), the progress of this rank in this run.
  [[nodiscard]] llvm::Error Keep(const std::string& entry) { return journal_.Write(inode_, {run_, entry}); }

 private:
  RankPart(Journal journal, const StagedFolder& staged, std::unique_ptr<FileLock> lock)
      : journal_(std::move(journal)), inode_(staged.inode), run_(staged.run), lock_(std::move(lock)) {}

  Journal journal_;
  std::uint64_t inode_;
  std::uint64_t run_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace ucp
