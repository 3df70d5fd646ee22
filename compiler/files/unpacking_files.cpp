// A path that reads as the name of an unpacked or widened file is one if a regular file stands before its last part.
#include "compiler/files/unpacking_files.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "compiler/files/unpacked_file.h"
#include "compiler/files/widened_file.h"
#include "compiler/support/error.h"

namespace ucp {

namespace {

// A file that a part of another is made into.
struct Made {
  std::string file;
  std::uint64_t bytes = 0;

  static std::optional<Made> Of(const std::string& path) {
    if (const auto unpacked = UnpackedName::Of(path)) return Made{unpacked->file, unpacked->bytes};
    if (const auto widened = WidenedName::Of(path)) return Made{widened->file, widened->bytes()};
    return std::nullopt;
  }
};

}  // namespace

llvm::Expected<std::unique_ptr<ReadableFile>> UnpackingFiles::OpenForReading(const std::string& path) {
  const std::optional<Made> made = Made::Of(path);
  if (!made) return files_.OpenForReading(path);
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(made->file));
  if (kind != PathKind::kFile) return files_.OpenForReading(path);
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(made->file));
  if (auto widened = WidenedName::Of(path)) return WidenedFile::Open(std::move(file), *std::move(widened));
  return UnpackedFile::Open(std::move(file), *UnpackedName::Of(path));
}

llvm::Expected<PathKind> UnpackingFiles::Kind(const std::string& path) {
  if (!Made::Of(path)) return files_.Kind(path);
  UCP_ASSIGN_OR_RETURN(const FileStatus status, Status(path));
  return status.kind;
}

llvm::Expected<FileStatus> UnpackingFiles::Status(const std::string& path) {
  const std::optional<Made> made = Made::Of(path);
  if (!made) return files_.Status(path);
  UCP_ASSIGN_OR_RETURN(FileStatus file, files_.Status(made->file));
  if (file.kind != PathKind::kFile) return files_.Status(path);
  file.bytes = made->bytes;
  file.is_link = false;
  file.leads_to.clear();
  return file;
}

}  // namespace ucp
