#include "compiler/command_line/write_file.h"

#include <cerrno>
#include <cstdio>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

llvm::Error WriteFileWhole(const std::string& path, const std::string& bytes, const std::string& what) {
  std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  written = file != nullptr && std::fclose(file) == 0 && written;
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return llvm::Error::success();
  const std::string reason = SystemReason(errno);
  std::remove(partial.c_str());
  return Fail(ErrorCode::kIo, "cannot write {} `{}`: {}", what, path, reason);
}

}  // namespace ucp
