#include "compiler/files/lfs_pointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kBeginning = "version https://git-lfs.github.com/spec/";
constexpr std::uint64_t kMostBytes = 1024;  // As Git LFS itself has it.
constexpr std::size_t kMostDigits = 19;

// Of the file that it stands for; empty if it does not say.
std::string_view SizeIn(std::string_view text) {
  constexpr std::string_view kKey = "\nsize ";
  const std::size_t key = text.find(kKey);
  if (key == std::string_view::npos) return "";
  text.remove_prefix(key + kKey.size());
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits <= kMostDigits ? text.substr(0, digits) : "";
}

}  // namespace

llvm::Error RefuseLfsPointer(const ReadableFile& file) {
  if (file.bytes() < kBeginning.size() || file.bytes() > kMostBytes) return llvm::Error::success();
  std::string text(file.bytes(), '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  if (!text.starts_with(kBeginning)) return llvm::Error::success();
  const std::string_view size = SizeIn(text);
  return Fail(ErrorCode::kBadData,
              "`{}` is a pointer of Git LFS of {} bytes, and the file{} was not fetched; run `git lfs pull` in its "
              "repository",
              file.path(), file.bytes(), size.empty() ? "" : fmt::format(" of {} bytes that it stands for", size));
}

}  // namespace ucp
