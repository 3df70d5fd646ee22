#include "compiler/formats/recognise/follow_latest.h"

#include <filesystem>

#include "compiler/files/destination_names.h"
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

llvm::Error CheckTag(const std::string& tag, const std::string& latest, const std::string& root) {
  if (tag.empty()) return Fail(ErrorCode::kBadData, "`{}` is empty; name the checkpoint's folder itself", latest);
  if (tag.find('\0') != std::string::npos || tag.starts_with('/')) {
    return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is not a folder inside `{}`", latest, tag, root);
  }
  for (const auto& part : std::filesystem::path(tag)) {
    if (part == "..") {
      return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is not a folder inside `{}`", latest, tag, root);
    }
    if (NameOfPrepared(part.string())) {
      return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is the unfinished work of a conversion", latest, tag);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> FolderNamedBy(ReadableFileSystem& files, const std::string& latest, const std::string& root,
                                          const Format& format, IsCheckpoint is_checkpoint) {
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, latest, kLatestBytes));
  std::string tag = Strip(text);
  UCP_RETURN_IF_ERROR(CheckTag(tag, latest, root));
  tag = format.FolderOfLatest(tag);
  const std::string named = JoinPath(root, tag);
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(named));
  if (kind != PathKind::kDirectory) {
    return Fail(ErrorCode::kBadData, "`{}` names `{}`, and there is no folder `{}`", latest, tag, named);
  }
  UCP_ASSIGN_OR_RETURN(bool is_one, is_checkpoint(named));
  if (is_one) return named;
  return Fail(ErrorCode::kBadData, "`{}` names `{}`, which is not a checkpoint", latest, tag);
}

}  // namespace

llvm::Expected<std::optional<std::string>> FollowLatest(ReadableFileSystem& files, const std::string& root,
                                                        const Format& format, IsCheckpoint is_checkpoint) {
  const std::string latest = JoinPath(root, std::string(format.latest_file()));
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(latest));
  if (status.kind == PathKind::kFile) {
    UCP_ASSIGN_OR_RETURN(std::string folder, FolderNamedBy(files, latest, root, format, is_checkpoint));
    return folder;
  }
  if (status.kind == PathKind::kMissing) {
    if (!status.is_link) return std::nullopt;
    return Fail(ErrorCode::kBadData,
                "`{}` is a link to `{}`, and nothing is there; name the checkpoint's folder itself", latest,
                status.leads_to);
  }
  // A checkpoint may itself be called so, if it was saved without a latest file.
  if (status.kind == PathKind::kDirectory) {
    UCP_ASSIGN_OR_RETURN(bool is_one, is_checkpoint(latest));
    if (is_one) return std::nullopt;
  }
  return Fail(ErrorCode::kBadData,
              "`{}` is not a regular file that names a checkpoint; name the checkpoint's folder itself", latest);
}

}  // namespace ucp
