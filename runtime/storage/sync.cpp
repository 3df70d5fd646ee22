#include "runtime/storage/sync.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

llvm::Error SyncFile(FileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.OpenForWriting(path));
  UCP_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

Syncer::Syncer(FileSystem& files, const std::string& folder) : files_(&files) {
  llvm::Expected<std::unique_ptr<WholeSync>> whole = files.OpenWholeSync(folder);
  if (whole) {
    whole_ = std::move(*whole);
  } else {
    why_not_ = TakeFailure(whole.takeError()).message;
  }
}

llvm::Error Syncer::Sync(const PathsToSync& paths, const ParallelOptions& options) {
  if (AreMany(paths)) {
    choice_ = fmt::format("the whole file system was synced at once: there are more than {} files and folders",
                          whole_->least_paths());
    return whole_->Sync();
  }
  choice_ = fmt::format("{} and {}, each synced by itself: {}", Counted(paths.files.size(), "file"),
                        Counted(paths.folders.size(), "folder"), whole_ == nullptr ? why_not_ : "they are few");
  // Together: journaling file systems write many small files out in one go if they are asked at the same time.
  UCP_RETURN_IF_ERROR(ForEachInParallel(
      paths.files.size(), options, [&](unsigned, std::uint64_t item) { return SyncFile(*files_, paths.files[item]); }));
  for (const std::string& folder : paths.folders) UCP_RETURN_IF_ERROR(files_->SyncDirectory(folder));
  return llvm::Error::success();
}

}  // namespace ucp
