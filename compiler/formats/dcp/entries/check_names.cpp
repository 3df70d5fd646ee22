#include "compiler/formats/dcp/entries/check_names.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::dcp {
namespace {

constexpr std::size_t kMostDepth = 200;
constexpr std::size_t kMostNameBytes = 4096;
constexpr std::size_t kMostPathBytes = 1024;

bool IsBelow(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

llvm::Error CheckKey(std::string_view key) {
  if (key.size() > kMostNameBytes) {
    return Fail(ErrorCode::kUnsupported, "the key `{:.60}…` has {} bytes, and keys of {} are read", key, key.size(),
                kMostNameBytes);
  }
  if (IsUtf8(key)) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "the key `{:.60}` holds a lone surrogate, which is not a character", key);
}

llvm::Error CheckDepth(const Entry& entry) {
  const auto dots = static_cast<std::size_t>(std::ranges::count(entry.key, '.'));
  const std::size_t depth = std::max(entry.path.size(), dots + 1);
  if (depth <= kMostDepth) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "the entry `{:.60}` is nested {} deep, and {} are read", entry.key, depth,
              kMostDepth);
}

llvm::Error CheckFilePath(std::string_view path, std::string_view key) {
  if (path.size() > kMostPathBytes) {
    return Fail(ErrorCode::kBadData, "`{}` lies in a file whose path has {} bytes, `{:.60}…`", key, path.size(), path);
  }
  if (IsBelow(path)) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}` lies in the file `{:.200}`, which is not below the folder", key, path);
}

}  // namespace ucp::dcp
