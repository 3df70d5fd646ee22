#include "runtime/storage/files_by_means.h"

#include "compiler/support/error.h"
#include "runtime/storage/direct_file.h"

namespace ucp {

llvm::Expected<std::unique_ptr<ReadableFile>> FilesByMeans::OpenForReading(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files().OpenForReading(path));
  if (!reads_directly_) return file;
  return std::make_unique<DirectReadableFile>(std::move(file));
}

llvm::Expected<std::unique_ptr<WritableFile>> FilesByMeans::OpenForWriting(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files().OpenForWriting(path));
  if (!writes_directly_) return file;
  return std::make_unique<DirectWritableFile>(std::move(file), path);
}

}  // namespace ucp
