#include "runtime/formats/checkpoint_root.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kLatestBytes = 4096;

// Python's str.strip().
std::string Strip(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

llvm::Expected<bool> IsCheckpoint(FileSystem& files, const CheckpointRoot& root, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind != PathKind::kDirectory) return false;
  return root.is_checkpoint(path);
}

llvm::Expected<std::string> FollowLatest(FileSystem& files, const std::string& folder, const CheckpointRoot& root) {
  const std::string latest = JoinPath(folder, root.latest_file);
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, latest, kLatestBytes));
  const std::string tag = Strip(text);
  if (tag.empty()) return Fail(ErrorCode::kBadData, "`{}` is empty; name the checkpoint's folder itself", latest);
  for (const auto& part : std::filesystem::path(tag)) {
    if (part == ".." || part.is_absolute() || tag.find('\0') != std::string::npos) {
      return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is not a folder inside `{}`", latest, tag, folder);
    }
  }
  const std::string named = JoinPath(folder, tag);
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(named));
  if (kind != PathKind::kDirectory) {
    return Fail(ErrorCode::kBadData, "`{}` names `{}`, and there is no folder `{}`", latest, tag, named);
  }
  UCP_ASSIGN_OR_RETURN(bool is_checkpoint, root.is_checkpoint(named));
  if (is_checkpoint) return named;
  return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is not a checkpoint", latest, tag);
}

llvm::Expected<std::optional<std::string>> FindOnlyOne(FileSystem& files, const std::string& folder,
                                                       const CheckpointRoot& root) {
  std::vector<std::string> found;
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory) continue;
    UCP_ASSIGN_OR_RETURN(bool is_checkpoint, root.is_checkpoint(JoinPath(folder, entry.name)));
    if (is_checkpoint) found.push_back(entry.name);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return JoinPath(folder, found.front());
  return Fail(ErrorCode::kBadData, "`{}` has no `{}` and holds {} checkpoints: {}; name one of them", folder,
              root.latest_file, found.size(), fmt::join(found, ", "));
}

// Trainers keep several roots beside each other: `checkpoint-500`, `checkpoint-1000`, each with a latest file.
llvm::Expected<std::optional<std::string>> FindOnlyRoot(FileSystem& files, const std::string& folder,
                                                        const CheckpointRoot& root) {
  std::vector<std::string> found;
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory) continue;
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(JoinPath(folder, entry.name), root.latest_file)));
    if (kind == PathKind::kFile) found.push_back(entry.name);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) {
    UCP_ASSIGN_OR_RETURN(std::string only, FollowLatest(files, JoinPath(folder, found.front()), root));
    return only;
  }
  return Fail(ErrorCode::kBadData, "`{}` holds {} folders with a `{}` in each: {}; name one of them", folder,
              found.size(), root.latest_file, fmt::join(found, ", "));
}

llvm::Expected<std::optional<std::string>> FindBelow(FileSystem& files, const std::string& folder,
                                                     const CheckpointRoot& root) {
  UCP_ASSIGN_OR_RETURN(bool is_checkpoint, IsCheckpoint(files, root, folder));
  if (is_checkpoint) return folder;
  const std::string latest = JoinPath(folder, root.latest_file);
  UCP_ASSIGN_OR_RETURN(PathKind latest_kind, files.Kind(latest));
  if (latest_kind == PathKind::kFile) return FollowLatest(files, folder, root);
  // A checkpoint may itself be called so, if it was saved without a latest file.
  UCP_ASSIGN_OR_RETURN(bool is_tag, IsCheckpoint(files, root, latest));
  if (latest_kind == PathKind::kMissing || is_tag) {
    UCP_ASSIGN_OR_RETURN(std::optional<std::string> only, FindOnlyOne(files, folder, root));
    if (only) return only;
    return FindOnlyRoot(files, folder, root);
  }
  return Fail(ErrorCode::kBadData,
              "`{}` is not a regular file that names a checkpoint; name the checkpoint's folder itself", latest);
}

}  // namespace

llvm::Expected<std::optional<std::string>> FindCheckpoint(FileSystem& files, const std::string& path,
                                                          const CheckpointRoot& root) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind == PathKind::kDirectory) {
    std::string folder = path;
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    return FindBelow(files, folder, root);
  }
  if (kind != PathKind::kFile) return std::nullopt;
  // A file means the nearest checkpoint around it: three levels up reaches the root from a parameter's file.
  std::filesystem::path around = std::filesystem::path(path).lexically_normal();
  if (around.filename() == root.latest_file) return FollowLatest(files, std::string(around.parent_path()), root);
  for (int level = 0; level < 3 && around.has_parent_path() && around != around.parent_path(); ++level) {
    around = around.parent_path();
    UCP_ASSIGN_OR_RETURN(bool is_checkpoint, IsCheckpoint(files, root, around.string()));
    if (is_checkpoint) return around.string();
  }
  return std::nullopt;
}

}  // namespace ucp
