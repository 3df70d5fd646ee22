// A path that reads as the name of an unpacked file is one if a regular file stands before its last part.
#include "compiler/files/unpacking_files.h"

#include "compiler/files/unpacked_file.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::unique_ptr<ReadableFile>> UnpackingFiles::OpenForReading(const std::string& path) {
  std::optional<UnpackedName> name = UnpackedName::Of(path);
  if (!name) return files_.OpenForReading(path);
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(name->file));
  if (kind != PathKind::kFile) return files_.OpenForReading(path);
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> packed, files_.OpenForReading(name->file));
  return UnpackedFile::Open(std::move(packed), *std::move(name));
}

llvm::Expected<PathKind> UnpackingFiles::Kind(const std::string& path) {
  if (!UnpackedName::Of(path)) return files_.Kind(path);
  UCP_ASSIGN_OR_RETURN(const FileStatus status, Status(path));
  return status.kind;
}

llvm::Expected<FileStatus> UnpackingFiles::Status(const std::string& path) {
  const std::optional<UnpackedName> name = UnpackedName::Of(path);
  if (!name) return files_.Status(path);
  UCP_ASSIGN_OR_RETURN(FileStatus packed, files_.Status(name->file));
  if (packed.kind != PathKind::kFile) return files_.Status(path);
  packed.bytes = name->bytes;
  packed.is_link = false;
  packed.leads_to.clear();
  return packed;
}

}  // namespace ucp
