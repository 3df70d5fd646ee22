#include "runtime/commit/commit.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// All that a folder holds, as paths; or so many of them that no more need be known. Folders come after what they hold.
llvm::Error Collect(FileSystem& files, const Syncer& syncer, const std::string& folder, PathsToSync& contents) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  for (const DirectoryEntry& entry : entries) {
    if (syncer.AreMany(contents)) return llvm::Error::success();
    std::string path = JoinPath(folder, entry.name);
    if (entry.is_directory) {
      UCP_RETURN_IF_ERROR(Collect(files, syncer, path, contents));
    } else {
      contents.files.push_back(std::move(path));
    }
  }
  contents.folders.push_back(folder);
  return llvm::Error::success();
}

// A name has 255 bytes at most, and the longest one beside the destination is ".NAME.ucp-journal-0".
constexpr std::size_t kLongestName = 255 - std::string_view("..ucp-journal-0").size();

// The journal's name for the folder (J3).
std::uint64_t NumberOf(const FileStatus& folder) { return folder.inode_lasts ? folder.inode : kFleetingInode; }

}  // namespace

Staging::Staging(FileSystem& files, std::string destination)
    : files_(&files), destination_(std::move(destination)), journal_(files, "", ""), ranks_(files, "") {
  parent_ = ParentOf(destination_);
  folder_ = BesideDestination(destination_, "partial");
  old_folder_ = BesideDestination(destination_, "old");
  lock_path_ = BesideDestination(destination_, "lock");
  journal_ = Journal(files, parent_, BesideDestination(destination_, "journal"));
  ranks_ = RanksFolder(files, BesideDestination(destination_, "ranks"));
}

Staging::Staging(Staging&& other) noexcept
    : files_(other.files_),
      destination_(std::move(other.destination_)),
      parent_(std::move(other.parent_)),
      folder_(std::move(other.folder_)),
      old_folder_(std::move(other.old_folder_)),
      lock_path_(std::move(other.lock_path_)),
      journal_(std::move(other.journal_)),
      ranks_(std::move(other.ranks_)),
      syncer_(std::move(other.syncer_)),
      entries_before_(std::move(other.entries_before_)),
      folder_inode_(other.folder_inode_),
      run_(other.run_),
      has_ranks_(other.has_ranks_),
      unites_entries_(other.unites_entries_),
      is_complete_(other.is_complete_),
      is_committed_(other.is_committed_),
      replaces_(other.replaces_),
      exchanged_(other.exchanged_),
      made_folder_(std::exchange(other.made_folder_, false)),
      lock_(std::move(other.lock_)) {}

Staging::~Staging() {
  // Nobody is left to hear of an error here; the next run to the same destination cleans up (S2).
  if (!is_kept()) llvm::consumeError(Abandon());
}

llvm::Expected<Staging> Staging::Begin(FileSystem& files, const std::string& destination,
                                       const StagingOptions& options) {
  const std::string name = NameOfDestination(destination);
  if (name.empty() || name == "." || name == "..") {
    return Fail(ErrorCode::kUsage, "`{}` cannot be a destination: it does not end in a name", destination);
  }
  if (name.size() > kLongestName) {
    return Fail(ErrorCode::kUsage,
                "`{}` cannot be a destination: its name has {} bytes, and {} are the most, since what is written "
                "meanwhile has a longer one",
                destination, name.size(), kLongestName);
  }
  Staging staging(files, destination);
  // An earlier run may have finished what this one is to continue.
  UCP_RETURN_IF_ERROR(options.resume ? staging.LookAtDestination(options) : staging.CheckDestination(options));
  UCP_ASSIGN_OR_RETURN(staging.lock_, files.TryLock(staging.lock_path_));
  if (staging.lock_ == nullptr) {
    return Fail(ErrorCode::kIo, "another process is writing `{}` (it holds `{}`); wait for it, or name another folder",
                destination, staging.lock_path_);
  }
  UCP_RETURN_IF_ERROR(staging.CheckOthersAreGone());
  if (options.resume) UCP_RETURN_IF_ERROR(staging.FindEntries());
  UCP_RETURN_IF_ERROR(staging.CleanUpAfterDead());
  if (options.resume && staging.entries_before_.empty() && options.is_complete) {
    UCP_ASSIGN_OR_RETURN(staging.is_complete_, options.is_complete());
    if (staging.is_complete_) {
      // The earlier run may have died between S5 and S6.
      UCP_RETURN_IF_ERROR(files.SyncDirectory(staging.parent_));
      return staging;
    }
  }
  // Again: another process may have finished between the first look and the lock.
  UCP_RETURN_IF_ERROR(staging.CheckDestination(options));
  staging.syncer_.emplace(files, staging.parent_);
  if (staging.entries_before_.empty()) UCP_RETURN_IF_ERROR(staging.MakeFolder(options));
  if (options.ranks > 1 && !staging.has_ranks_) {
    staging.has_ranks_ = true;
    UCP_RETURN_IF_ERROR(staging.ranks_.Make());
    UCP_RETURN_IF_ERROR(files.SyncDirectory(staging.parent_));  // Files that ranks keep in it must stay.
  }
  return staging;
}

// A rank whose rank 0 was killed may live on for a moment, and write.
llvm::Error Staging::CheckOthersAreGone() {
  UCP_ASSIGN_OR_RETURN(has_ranks_, ranks_.IsThere());
  if (!has_ranks_) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::string held, ranks_.HeldLock());
  if (held.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kIo,
              "another process is writing `{}` (it holds `{}`: a rank of a run whose first rank is gone); wait for it "
              "to end, or name another folder",
              destination_, held);
}

// An entry names the folder that it vouches for (J3), and not by the name of the folder.
llvm::Error Staging::FindEntries() {
  UCP_ASSIGN_OR_RETURN(FileStatus status, files_->Status(folder_));
  if (status.kind != PathKind::kDirectory || status.is_link) return llvm::Error::success();
  folder_inode_ = NumberOf(status);
  if (std::optional<JournalEntry> entry = journal_.Find(folder_inode_)) {
    run_ = entry->run;
    entries_before_.push_back(std::move(entry->text));
  }
  if (has_ranks_) {
    UCP_ASSIGN_OR_RETURN(std::vector<std::string> others, ranks_.FindEntries(folder_inode_, run_));
    for (std::string& entry : others) entries_before_.push_back(std::move(entry));
  }
  if (entries_before_.empty()) return llvm::Error::success();
  unites_entries_ = has_ranks_;
  ++run_;
  return llvm::Error::success();
}

llvm::Error Staging::Keep(const std::string& entry) {
  // That the folder has its name must be durable: else the name may lead, after a power cut, to an earlier folder whose
  // removal was not, and which had the same inode (J3).
  if (!journal_.has_entry()) UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));
  UCP_RETURN_IF_ERROR(journal_.Write(folder_inode_, {run_, entry}));
  return std::exchange(unites_entries_, false) ? ranks_.RemoveEntries() : llvm::Error::success();
}

bool Staging::is_kept() const {
  return !is_committed_ && (journal_.has_entry() || (has_ranks_ && ranks_.HasEntries()));
}

// Of all ranks, all of whom are gone or will keep nothing more.
llvm::Error Staging::RemoveJournals() {
  UCP_RETURN_IF_ERROR(journal_.Remove());
  return std::exchange(has_ranks_, false) ? ranks_.Remove() : llvm::Error::success();
}

llvm::Error Staging::MakeFolder(const StagingOptions& options) {
  UCP_ASSIGN_OR_RETURN(std::uint64_t free_bytes, files_->FreeBytes(parent_));
  if (free_bytes < options.bytes_needed) {
    return Fail(ErrorCode::kIo, "`{}` needs {} ({} bytes), and the file system of `{}` has {} ({} bytes) free",
                destination_, HumanBytes(options.bytes_needed), options.bytes_needed, parent_, HumanBytes(free_bytes),
                free_bytes);
  }
  // No journal that was removed may come back beside the new folder (J3).
  UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));
  made_folder_ = true;  // Even a failing call may have made it.
  UCP_RETURN_IF_ERROR(files_->MakeDirectory(folder_));
  UCP_ASSIGN_OR_RETURN(FileStatus status, files_->Status(folder_));
  folder_inode_ = NumberOf(status);
  return llvm::Error::success();
}

llvm::Error Staging::LookAtDestination(const StagingOptions& options) {
  StagingOptions replacing = options;
  replacing.force = true;
  return CheckDestination(replacing);
}

llvm::Error Staging::CheckDestination(const StagingOptions& options) {
  UCP_ASSIGN_OR_RETURN(FileStatus parent, files_->Status(parent_));
  if (parent.kind != PathKind::kDirectory) {
    return Fail(ErrorCode::kUsage, "`{}` cannot be written: there is no folder `{}`", destination_, parent_);
  }
  UCP_ASSIGN_OR_RETURN(bool writable, files_->IsWritable(parent_));
  if (!writable) return Fail(ErrorCode::kIo, "`{}` cannot be written: `{}` is not writable", destination_, parent_);

  UCP_ASSIGN_OR_RETURN(FileStatus status, files_->Status(destination_));
  if (status.is_link) {
    return Fail(ErrorCode::kUsage, "`{}` is a symbolic link; name the folder that is meant", destination_);
  }
  replaces_ = status.kind != PathKind::kMissing;
  if (!replaces_) return llvm::Error::success();
  if (!options.force) {
    return Fail(ErrorCode::kUsage, "`{}` exists; name another folder, or pass {} to replace it", destination_,
                OptionName(UserOption::kForce));
  }
  if (status.kind != PathKind::kDirectory) {
    return Fail(ErrorCode::kUsage, "`{}` is not a folder, and {} replaces only folders", destination_,
                OptionName(UserOption::kForce));
  }
  if (status.device != parent.device) {
    return Fail(ErrorCode::kUsage, "`{}` is a mount point and cannot be replaced; name a folder in it", destination_);
  }
  return options.source.empty() ? llvm::Error::success() : CheckSourceSurvives(status, options.source);
}

// Walks up from the source to the root by what folders are, and not by how their paths are spelt.
llvm::Error Staging::CheckSourceSurvives(const FileStatus& destination, const std::string& source) {
  std::string path = source;
  FileStatus below;
  while (true) {
    UCP_ASSIGN_OR_RETURN(FileStatus status, files_->Status(path));
    if (status.kind == PathKind::kMissing) return llvm::Error::success();
    if (status.device == destination.device && status.inode == destination.inode) {
      return Fail(ErrorCode::kUsage, "replacing `{}` would remove the source `{}`; name another folder", destination_,
                  source);
    }
    if (status.device == below.device && status.inode == below.inode) return llvm::Error::success();  // The root.
    below = status;
    path = JoinPath(path, "..");
  }
}

llvm::Error Staging::CleanUpAfterDead() {
  UCP_ASSIGN_OR_RETURN(PathKind folder, files_->Kind(folder_));
  UCP_ASSIGN_OR_RETURN(PathKind old, files_->Kind(old_folder_));
  UCP_ASSIGN_OR_RETURN(bool has_journal, journal_.IsThere());
  if (folder == PathKind::kMissing && old == PathKind::kMissing && !has_journal && !has_ranks_) {
    return llvm::Error::success();
  }
  if (entries_before_.empty()) {
    UCP_RETURN_IF_ERROR(RemoveJournals());
    // Nothing may vouch for a folder that goes; and it may be the old one of an exchange that is not durable yet (I4).
    UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));
    UCP_RETURN_IF_ERROR(files_->RemoveTree(folder_));
  }
  if (old == PathKind::kMissing) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(FileStatus status, files_->Status(destination_));
  if (status.kind == PathKind::kMissing && !status.is_link) return files_->Rename(old_folder_, destination_);
  return files_->RemoveTree(old_folder_);
}

llvm::Error Staging::Commit(const ParallelOptions& options) {
  UCP_RETURN_IF_ERROR(MakeDurable(options));
  UCP_RETURN_IF_ERROR(Appear());
  return Finish();
}

llvm::Error Staging::MakeDurable(const ParallelOptions& options) {
  PathsToSync contents;
  UCP_RETURN_IF_ERROR(Collect(*files_, *syncer_, folder_, contents));
  UCP_RETURN_IF_ERROR(syncer_->Sync(contents, options));
  if (options.cancelled != nullptr && options.cancelled->load()) return Fail(ErrorCode::kCancelled, "interrupted");
  return llvm::Error::success();
}

llvm::Error Staging::Appear() {
  if (replaces_) {
    UCP_RETURN_IF_ERROR(Replace());
  } else {
    UCP_RETURN_IF_ERROR(files_->Rename(folder_, destination_));
  }
  if (llvm::Error error = files_->SyncDirectory(parent_)) {
    if (!PutBack()) {
      made_folder_ = false;
      is_committed_ = true;
    }
    return error;
  }
  made_folder_ = false;
  is_committed_ = true;
  return llvm::Error::success();
}

// If it fails, the new folder stays where it is, and nothing is removed.
bool Staging::Vanish() {
  if (!PutBack()) return false;
  llvm::consumeError(files_->SyncDirectory(parent_));
  made_folder_ = true;
  is_committed_ = false;
  return true;
}

llvm::Error Staging::Finish() {
  UCP_RETURN_IF_ERROR(AddContext(RemoveOld(), "`" + destination_ +
                                                  "` is complete, but what stood there before, or the journal, could "
                                                  "not be removed"));
  lock_.reset();
  return llvm::Error::success();
}

llvm::Error Staging::RemoveOld() {
  if (journal_.has_entry() || has_ranks_) UCP_RETURN_IF_ERROR(RemoveJournals());
  return replaces_ ? files_->RemoveTree(exchanged_ ? folder_ : old_folder_) : llvm::Error::success();
}

llvm::Error Staging::Replace() {
  if (folder_inode_ == kFleetingInode) {
    made_folder_ = true;  // Nothing vouches for it from here on, so an error removes it.
    UCP_RETURN_IF_ERROR(RemoveJournals());
    UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));
  }
  llvm::Error error = files_->Exchange(folder_, destination_);
  if (!error) {
    exchanged_ = true;
    return llvm::Error::success();
  }
  FailureText failure = TakeFailure(std::move(error));
  if (failure.code != ErrorCode::kUnsupported) return MakeError(failure.code, failure.message);
  return SetAsideAndRename();
}

llvm::Error Staging::SetAsideAndRename() {
  UCP_RETURN_IF_ERROR(files_->Rename(destination_, old_folder_));
  llvm::Error error = files_->Rename(folder_, destination_);
  if (!error) return llvm::Error::success();
  llvm::consumeError(files_->Rename(old_folder_, destination_));  // If it fails too, S2 of the next run does it.
  return error;
}

// Undoes S5. It is the answer to one failure; if it fails too, everything stays as it is, and S2 of the next run finds
// it: what has the hidden name now may be the old folder (I4).
bool Staging::PutBack() {
  llvm::Error error = exchanged_ ? files_->Exchange(folder_, destination_) : files_->Rename(destination_, folder_);
  if (!error && replaces_ && !exchanged_) error = files_->Rename(old_folder_, destination_);
  const bool is_back = !error;
  llvm::consumeError(std::move(error));
  return is_back;
}

llvm::Error Staging::Abandon() {
  const bool is_here = std::exchange(made_folder_, false) || is_kept();
  if (is_here) {
    UCP_RETURN_IF_ERROR(RemoveJournals());
    UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));  // Nothing may vouch for a folder that goes.
    UCP_RETURN_IF_ERROR(files_->RemoveTree(folder_));
  }
  lock_.reset();
  return llvm::Error::success();
}

}  // namespace ucp
