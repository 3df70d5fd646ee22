#include "runtime/commit/ranks_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kLock = "lock-";
constexpr std::string_view kJournal = "journal-";

std::string JournalBase(const std::string& folder, int rank) {
  return JoinPath(folder, fmt::format("{}{}", kJournal, rank));
}

}  // namespace

llvm::Expected<bool> RanksFolder::IsThere() const {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files_->Kind(path_));
  return kind != PathKind::kMissing;
}

llvm::Expected<std::string> RanksFolder::HeldLock() const {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_->List(path_));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.name.starts_with(kLock)) continue;
    const std::string path = JoinPath(path_, entry.name);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, files_->TryLock(path));
    if (lock == nullptr) return path;
  }
  return std::string();
}

llvm::Expected<std::vector<std::string>> RanksFolder::FindEntries(std::uint64_t folder_inode, std::uint64_t run) const {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_->List(path_));
  std::set<int> ranks;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.name.starts_with(kJournal)) continue;
    int rank = 0;
    const char* end = entry.name.data() + entry.name.size();
    if (std::from_chars(entry.name.data() + kJournal.size(), end, rank).ec == std::errc()) ranks.insert(rank);
  }
  std::vector<std::string> found;
  for (int rank : ranks) {
    std::optional<JournalEntry> entry = Journal(*files_, path_, JournalBase(path_, rank)).Find(folder_inode);
    if (entry && entry->run == run) found.push_back(std::move(entry->text));
  }
  return found;
}

bool RanksFolder::HasEntries() const {
  llvm::Expected<std::vector<DirectoryEntry>> entries = files_->List(path_);
  if (!entries) {
    llvm::consumeError(entries.takeError());
    llvm::Expected<bool> is_there = IsThere();
    if (is_there) return *is_there;
    llvm::consumeError(is_there.takeError());
    return true;
  }
  return std::any_of(entries->begin(), entries->end(),
                     [](const DirectoryEntry& entry) { return entry.name.starts_with(kJournal); });
}

llvm::Error RanksFolder::RemoveEntries() {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_->List(path_));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name.starts_with(kJournal)) UCP_RETURN_IF_ERROR(files_->RemoveTree(JoinPath(path_, entry.name)));
  }
  return llvm::Error::success();
}

llvm::Expected<RankPart> RankPart::Take(FileSystem& files, const StagedFolder& staged, int rank) {
  const std::string path = JoinPath(staged.ranks_folder, fmt::format("{}{}", kLock, rank));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, files.TryLock(path));
  if (lock == nullptr) return Fail(ErrorCode::kIo, "another process holds `{}`; wait for it to end", path);
  return RankPart(Journal(files, staged.ranks_folder, JournalBase(staged.ranks_folder, rank)), staged, std::move(lock));
}

}  // namespace ucp
