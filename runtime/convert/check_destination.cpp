#include "runtime/convert/check_destination.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/formats/format.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {

llvm::Error CheckDestination(FileSystem& files, const std::string& source_folder, const std::string& destination,
                             bool force) {
  namespace fs = std::filesystem;
  fs::path source = fs::absolute(source_folder).lexically_normal();
  fs::path wanted = fs::absolute(destination).lexically_normal();
  auto [rest, ignored] = std::mismatch(source.begin(), source.end(), wanted.begin(), wanted.end());
  if (rest == source.end() && source != wanted) {
    return Fail(ErrorCode::kUsage, "`{}` lies inside the source `{}`; name a folder elsewhere", destination,
                source_folder);
  }
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(destination));
  if (!force || kind != PathKind::kDirectory) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(destination));
  if (entries.empty()) return llvm::Error::success();
  // A part need not look like a checkpoint.
  llvm::Expected<std::optional<FoundManifest>> part = FindPart(files, destination);
  if (part && *part && (*part)->root == destination) return llvm::Error::success();
  llvm::consumeError(part.takeError());
  if (llvm::Error error = RecogniseAny(files, destination).takeError()) {
    FailureText failure = Describe(std::move(error));
    if (failure.code == ErrorCode::kIo) return MakeError(failure.code, failure.message);  // It may well be one.
    return Fail(ErrorCode::kUsage, "`{}` is neither empty nor a checkpoint, so --force does not replace it",
                destination);
  }
  return llvm::Error::success();
}

}  // namespace ucp
