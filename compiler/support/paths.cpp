#include "compiler/support/paths.h"

#include <system_error>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

bool StaysInFolder(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  while (true) {
    std::size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

llvm::Expected<std::filesystem::path> AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (!error) return absolute.lexically_normal();
  return Fail(ErrorCode::kUsage,
              "`{}` is a path from the working directory, and that cannot be found: {}; name it from `/` on, or change "
              "to another folder",
              path, SystemReason(error));
}

}  // namespace ucp
