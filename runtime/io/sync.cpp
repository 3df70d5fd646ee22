#include "runtime/io/sync.h"

#include <memory>

#include "compiler/support/error.h"

namespace ucp {
namespace {

llvm::Error SyncFile(FileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.OpenForWriting(path));
  UCP_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

llvm::Error Sync(FileSystem& files, const PathsToSync& paths, const ParallelOptions& options) {
  // Together: journaling file systems write many small files out in one go if they are asked at the same time.
  UCP_RETURN_IF_ERROR(ForEachInParallel(
      paths.files.size(), options, [&](unsigned, std::uint64_t item) { return SyncFile(files, paths.files[item]); }));
  for (const std::string& folder : paths.folders) UCP_RETURN_IF_ERROR(files.SyncDirectory(folder));
  return llvm::Error::success();
}

}  // namespace ucp
