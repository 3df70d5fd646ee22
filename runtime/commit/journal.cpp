#include "runtime/commit/journal.h"

#include <cstring>
#include <utility>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kMagic = "ucpjrnl4";
constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kHeadBytes = kMagic.size() + 3 * sizeof(std::uint64_t);  // The entry's number, inode, run.
constexpr std::uint64_t kLargestEntry = std::uint64_t{1} << 31;

void Append(std::string& text, std::uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::uint64_t NumberAt(const std::string& text, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, text.data() + offset, sizeof(number));
  return number;
}

}  // namespace

Journal::Journal(FileSystem& files, std::string parent, std::string base)
    : files_(&files), parent_(std::move(parent)), paths_{base + "-0", base + "-1"} {}

std::optional<Journal::Slot> Journal::ReadSlot(const std::string& path) {
  llvm::Expected<std::string> text = ReadWholeFile(*files_, path, kLargestEntry);
  if (!text) {
    llvm::consumeError(text.takeError());
    return std::nullopt;
  }
  if (text->size() < kHeadBytes + kHashBytes || !text->starts_with(kMagic)) return std::nullopt;
  const std::size_t end = text->size() - kHashBytes;
  if (ContentHash(std::string_view(*text).substr(0, end)) != std::string_view(*text).substr(end)) return std::nullopt;
  auto number = [&](std::size_t place) { return NumberAt(*text, kMagic.size() + place * sizeof(std::uint64_t)); };
  return Slot{number(0), number(1), {number(2), text->substr(kHeadBytes, end - kHeadBytes)}};
}

std::optional<JournalEntry> Journal::Find(std::uint64_t folder_inode) {
  std::optional<JournalEntry> newest;
  for (const std::string& path : paths_) {
    std::optional<Slot> slot = ReadSlot(path);
    if (!slot || slot->folder_inode != folder_inode) continue;
    if (newest && slot->number < next_number_) continue;
    next_number_ = slot->number + 1;
    newest = std::move(slot->entry);
  }
  has_entry_ = newest.has_value();
  return newest;
}

llvm::Error Journal::Write(std::uint64_t folder_inode, const JournalEntry& entry) {
  std::string text(kMagic);
  Append(text, next_number_);
  Append(text, folder_inode);
  Append(text, entry.run);
  text += entry.text;
  text += ContentHash(text);
  // The number says which of the two is older, so the newest whole entry is never the one that goes.
  const std::string& path = paths_[next_number_ % paths_.size()];
  UCP_RETURN_IF_ERROR(files_->RemoveTree(path));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_->CreateForWriting(path, text.size()));
  UCP_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
  UCP_RETURN_IF_ERROR(file->Sync());
  UCP_RETURN_IF_ERROR(file->Close());
  UCP_RETURN_IF_ERROR(files_->SyncDirectory(parent_));
  ++next_number_;
  has_entry_ = true;
  return llvm::Error::success();
}

llvm::Expected<bool> Journal::IsThere() {
  for (const std::string& path : paths_) {
    UCP_ASSIGN_OR_RETURN(PathKind kind, files_->Kind(path));
    if (kind != PathKind::kMissing) return true;
  }
  return false;
}

llvm::Error Journal::Remove() {
  for (const std::string& path : paths_) UCP_RETURN_IF_ERROR(files_->RemoveTree(path));
  has_entry_ = false;
  return llvm::Error::success();
}

}  // namespace ucp
