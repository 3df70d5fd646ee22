#include "compiler/formats/recognise/links.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

bool AreSame(const FileStatus& a, const FileStatus& b) { return a.device == b.device && a.inode == b.inode; }

}  // namespace

llvm::Expected<std::optional<std::string>> EndOutside(ReadableFileSystem& files, const std::string& root,
                                                      const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FileStatus link, files.Status(path));
  if (!link.is_link) return std::nullopt;
  UCP_ASSIGN_OR_RETURN(const FileStatus inside, files.Status(root));
  const fs::path end = link.leads_to;
  for (fs::path around = end.parent_path(); end.is_absolute(); around = around.parent_path()) {
    UCP_ASSIGN_OR_RETURN(const FileStatus status, files.Status(around.string()));
    if (AreSame(status, inside)) return std::nullopt;
    if (around == around.parent_path()) break;
  }
  return link.leads_to;
}

llvm::Expected<std::unique_ptr<ReadableFile>> WatchedLinks::OpenForReading(const std::string& path) {
  std::unique_lock lock(mutex_);
  if (!listed_.contains(fs::path(path).parent_path().string())) {
    lock.unlock();
    UCP_ASSIGN_OR_RETURN(const FileStatus status, files_.Status(path));
    lock.lock();
    if (status.is_link) links_.insert(path);
  }
  lock.unlock();
  return files_.OpenForReading(path);
}

llvm::Expected<std::vector<DirectoryEntry>> WatchedLinks::List(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_.List(path));
  std::lock_guard lock(mutex_);
  listed_.insert(path);
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_link) links_.insert(JoinPath(path, entry.name));
  }
  return entries;
}

llvm::Expected<std::string> WatchedLinks::Remark(const std::string& root, const std::string& folder,
                                                 const std::vector<StoredFile>& stored) {
  if (links_.empty()) return "";
  std::string first;
  std::uint64_t count = 0;
  for (const StoredFile& file : stored) {
    std::optional<std::string> end;
    for (fs::path part = file.path; !part.empty() && !end; part = part.parent_path()) {
      const std::string path = JoinPath(folder, part.string());
      if (!links_.contains(path)) continue;
      UCP_ASSIGN_OR_RETURN(end, EndOutside(files_, root, path));
      if (end && first.empty()) first = fmt::format("`{}` is a link to `{}`", path, *end);
    }
    if (end) ++count;
  }
  if (count == 0) return "";
  return fmt::format("{} of the checkpoint {} outside of `{}`: {}", Counted(count, "file"), count == 1 ? "lies" : "lie",
                     root, first);
}

}  // namespace ucp
