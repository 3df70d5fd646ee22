#include "runtime/convert/check_destination.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/formats/companions.h"
#include "runtime/formats/format.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

bool IsFileOfWeights(const DirectoryEntry& entry) {
  const std::string& name = entry.name;
  return !entry.is_directory &&
         (name.ends_with(".pt") || name.ends_with(".safetensors") || name == "model.safetensors.index.json");
}

// What is no part of the checkpoint in `folder`, which is `destination` or a folder of it. `ours` are the names that
// the manifest lists; if there are some, nothing else is known to be meant.
bool IsForeign(const DirectoryEntry& entry, const std::set<std::string>& ours, const std::string& destination,
               const std::string& folder) {
  if (BelongsBesideCheckpoint(entry.name)) return false;
  if (!ours.empty()) return !ours.contains(entry.name);
  const fs::path inner = fs::absolute(folder).lexically_normal();
  const fs::path path = fs::absolute(JoinPath(destination, entry.name)).lexically_normal();
  if (inner == path) return false;
  if (inner.parent_path() == path.parent_path()) return true;  // Beside the tag's folder.
  return !IsFileOfWeights(entry) && !(entry.is_directory && entry.name == "zero");
}

// The folder is replaced as a whole, so all of it has to be what is meant: another tag, a log or a script beside the
// checkpoint would be lost.
llvm::Error CheckNothingElse(const std::string& destination, const std::vector<DirectoryEntry>& entries,
                             const std::set<std::string>& ours, const std::string& folder) {
  std::string first;
  for (const DirectoryEntry& entry : entries) {
    if (IsForeign(entry, ours, destination, folder) && (first.empty() || entry.name < first)) first = entry.name;
  }
  if (first.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`{}` holds `{}`, which is no part of the checkpoint that --force would replace; move it elsewhere, or "
              "name another folder",
              destination, first);
}

}  // namespace

llvm::Error CheckDestination(FileSystem& files, const std::string& source_folder, const std::string& destination,
                             bool force) {
  fs::path source = fs::absolute(source_folder).lexically_normal();
  fs::path wanted = fs::absolute(destination).lexically_normal();
  auto [rest, ignored] = std::mismatch(source.begin(), source.end(), wanted.begin(), wanted.end());
  if (rest == source.end() && source != wanted) {
    return Fail(ErrorCode::kUsage, "`{}` lies inside the source `{}`; name a folder elsewhere", destination,
                source_folder);
  }
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(destination));
  if (!force || status.is_link || status.kind != PathKind::kDirectory) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(destination));
  if (entries.empty()) return llvm::Error::success();
  std::set<std::string> ours;
  llvm::Expected<std::optional<Manifest>> manifest = ReadManifest(files, destination);
  if (manifest && *manifest) {
    for (const ManifestFile& file : (*manifest)->files) ours.insert(file.path.substr(0, file.path.find('/')));
  }
  llvm::consumeError(manifest.takeError());  // A damaged one says nothing.
  // A part need not look like a checkpoint.
  if (manifest && *manifest && (*manifest)->part.number > 0) {
    return CheckNothingElse(destination, entries, ours, destination);
  }
  llvm::Expected<Recognised> recognised = RecogniseAny(files, destination);
  if (!recognised) {
    FailureText failure = Describe(recognised.takeError());
    if (failure.code == ErrorCode::kIo) return MakeError(failure.code, failure.message);  // It may well be one.
    return Fail(ErrorCode::kUsage, "`{}` is neither empty nor a checkpoint, so --force does not replace it",
                destination);
  }
  return CheckNothingElse(destination, entries, ours, recognised->folder);
}

}  // namespace ucp
