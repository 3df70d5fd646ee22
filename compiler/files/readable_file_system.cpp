#include "compiler/files/readable_file_system.h"

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::string> ReadWholeFile(ReadableFileSystem& files, const std::string& path, std::uint64_t limit) {
  UCP_ASSIGN_OR_RETURN(auto file, files.OpenForReading(path));
  if (file->bytes() > limit) {
    return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and at most {} make sense there", path, file->bytes(), limit);
  }
  std::string content(file->bytes(), '\0');
  UCP_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(content))));
  return content;
}

std::string JoinPath(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

}  // namespace ucp
