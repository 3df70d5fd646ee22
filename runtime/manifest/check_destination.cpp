#include "runtime/manifest/check_destination.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/formats/companions.h"
#include "compiler/formats/format.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/support/error.h"
#include "compiler/support/paths.h"
#include "compiler/support/user_option.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

// Such as some format writes. A manifest is a hint from outside: it cannot make anything else part of a checkpoint.
bool HasNameOfFormat(std::string_view path) {
  return std::ranges::any_of(AllFormats(), [&](const auto& format) {
    return std::ranges::any_of(format->file_endings(), [&](std::string_view end) { return path.ends_with(end); });
  });
}

// Of a checkpoint that has roots, or of a model alone.
bool MayBeFileOf(bool has_roots, std::string_view path) {
  return std::ranges::any_of(
      AllFormats(), [&](const auto& format) { return format->has_roots() == has_roots && format->MayHaveFile(path); });
}

// The files that may stand in a checkpoint: what its manifest lists, or, without one, what its format and those who
// write it have.
class Belonging {
 public:
  // `folder`: of the checkpoint within the destination, "" if that is it.
  Belonging(const std::optional<Manifest>& manifest, std::string folder) : folder_(std::move(folder)) {
    if (!manifest) return;
    for (const ManifestFile& file : manifest->files) listed_.insert(file.path);
  }

  // `path`: of a file, below the destination.
  bool Holds(const std::string& path) const {
    const bool is_on_top = path.find('/') == std::string::npos;
    if (is_on_top && BelongsBesideCheckpoint(path)) return true;
    if (!listed_.empty()) return listed_.contains(path) && HasNameOfFormat(path);
    if (is_on_top && MayBeFileOf(false, path)) return true;
    return path.starts_with(folder_) && MayBeFileOf(true, std::string_view(path).substr(folder_.size()));
  }

 private:
  std::set<std::string> listed_;
  std::string folder_;  // With a slash behind it.
};

// The first file below the folder that does not belong there; empty if there is none.
llvm::Expected<std::string> FirstForeign(ReadableFileSystem& files, const Belonging& belonging,
                                         const std::string& destination, const std::string& below) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(JoinPath(destination, below)));
  for (const DirectoryEntry& entry : entries) {
    const std::string path = below.empty() ? entry.name : JoinPath(below, entry.name);
    if (!entry.is_directory) {
      if (!belonging.Holds(path)) return path;
      continue;
    }
    UCP_ASSIGN_OR_RETURN(std::string foreign, FirstForeign(files, belonging, destination, path));
    if (!foreign.empty()) return foreign;
  }
  return "";
}

}  // namespace

llvm::Error CheckDestination(ReadableFileSystem& files, const std::string& source_folder,
                             const std::string& destination, bool force) {
  UCP_ASSIGN_OR_RETURN(const fs::path source, AbsolutePath(source_folder));
  UCP_ASSIGN_OR_RETURN(const fs::path wanted, AbsolutePath(destination));
  auto [rest, ignored] = std::mismatch(source.begin(), source.end(), wanted.begin(), wanted.end());
  if (rest == source.end() && source != wanted) {
    return Fail(ErrorCode::kUsage, "`{}` lies inside the source `{}`; name a folder elsewhere", destination,
                source_folder);
  }
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(destination));
  if (!force || status.is_link || status.kind != PathKind::kDirectory) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(destination));
  if (entries.empty()) return llvm::Error::success();
  // A part need not look like a checkpoint.
  llvm::Expected<std::optional<FoundManifest>> part = FindPart(files, destination);
  if (part && *part && (*part)->root == destination) return llvm::Error::success();
  llvm::consumeError(part.takeError());
  if (llvm::Error error = RecogniseAny(files, destination).takeError()) {
    FailureText failure = TakeFailure(std::move(error));
    if (failure.code == ErrorCode::kIo) return MakeError(failure.code, failure.message);  // It may well be one.
    return Fail(ErrorCode::kUsage, "`{}` is neither empty nor a checkpoint, so {} does not replace it", destination,
                OptionName(UserOption::kForce));
  }
  return llvm::Error::success();
}

llvm::Error CheckNothingElse(ReadableFileSystem& files, const std::string& destination) {
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(destination));
  if (status.is_link || status.kind != PathKind::kDirectory) return llvm::Error::success();
  llvm::Expected<std::optional<Manifest>> found = ReadManifest(files, destination);
  std::optional<Manifest> manifest;
  if (found) manifest = std::move(*found);
  llvm::consumeError(found.takeError());  // A damaged one says nothing.
  std::string folder;
  if (llvm::Expected<Recognised> recognised = RecogniseAny(files, destination)) {
    UCP_ASSIGN_OR_RETURN(const fs::path inner, AbsolutePath(recognised->folder));
    UCP_ASSIGN_OR_RETURN(const fs::path outer, AbsolutePath(destination));
    const fs::path within = inner.lexically_relative(outer);
    if (within != ".") folder = within.string() + "/";
  } else {
    llvm::consumeError(recognised.takeError());  // A part, or an empty folder.
  }
  UCP_ASSIGN_OR_RETURN(const std::string foreign, FirstForeign(files, Belonging(manifest, folder), destination, ""));
  if (foreign.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`{}` holds `{}`, which is not a part of the checkpoint that {} would replace; move it elsewhere, or "
              "name another folder",
              destination, foreign, OptionName(UserOption::kForce));
}

}  // namespace ucp
