#include "runtime/storage/direct_io_files.h"

#include "compiler/support/error.h"
#include "runtime/storage/direct_file.h"

namespace ucp {

llvm::Expected<std::unique_ptr<ReadableFile>> DirectIoFiles::OpenForReading(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files().OpenForReading(path));
  if (!reads_directly_) return file;
  return std::make_unique<DirectReadableFile>(std::move(file));
}

llvm::Expected<std::unique_ptr<WritableFile>> DirectIoFiles::OpenForWriting(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files().OpenForWriting(path));
  if (!writes_directly_) return file;
  return std::make_unique<DirectWritableFile>(std::move(file), path);
}

}  // namespace ucp
