// A bfloat16 is the upper half of a float32.
#include "compiler/files/widened_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kBegins = "bfloat16:";
constexpr std::string_view kZerosBegin = "zeros:";
constexpr std::size_t kMostAtOnce = 1 << 20;  // Bytes of the other file.

}  // namespace

std::string WidenedName::Path() const {
  return fmt::format("{}/{}{}+{}", file, is_zeros ? kZerosBegin : kBegins, offset, narrow_bytes);
}

std::optional<WidenedName> WidenedName::Of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return std::nullopt;
  const bool is_zeros = path.substr(slash + 1).starts_with(kZerosBegin);
  const std::string_view begins = is_zeros ? kZerosBegin : kBegins;
  if (!path.substr(slash + 1).starts_with(begins)) return std::nullopt;
  const std::string_view numbers = path.substr(slash + 1 + begins.size());
  WidenedName name{std::string(path.substr(0, slash)), 0, 0, is_zeros};
  const char* end = numbers.data() + numbers.size();
  const auto offset = std::from_chars(numbers.data(), end, name.offset);
  if (offset.ec != std::errc() || offset.ptr == end || *offset.ptr != '+') return std::nullopt;
  const auto bytes = std::from_chars(offset.ptr + 1, end, name.narrow_bytes);
  const bool is_one = bytes.ec == std::errc() && bytes.ptr == end && name.narrow_bytes % 2 == 0 &&
                      name.narrow_bytes < std::uint64_t{1} << 62;
  return is_one ? std::optional(std::move(name)) : std::nullopt;
}

llvm::Expected<std::unique_ptr<ReadableFile>> WidenedFile::Open(std::unique_ptr<ReadableFile> file, WidenedName name) {
  const std::uint64_t all = file->bytes();
  const bool is_there = name.is_zeros || (name.offset <= all && name.narrow_bytes <= all - name.offset);
  if (!is_there) {
    return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and {} from {} on are to be read as bfloat16", file->path(),
                all, name.narrow_bytes, name.offset);
  }
  return std::unique_ptr<ReadableFile>(new WidenedFile(std::move(file), std::move(name)));
}

llvm::Error WidenedFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  if (name_.is_zeros) {
    std::ranges::fill(buffer, std::byte{0});
    return llvm::Error::success();
  }
  std::vector<std::byte> narrow;
  while (!buffer.empty()) {
    const std::uint64_t first = offset / 4;
    const std::uint64_t behind = std::min((offset + buffer.size() + 3) / 4, first + kMostAtOnce / 2);
    narrow.resize(static_cast<std::size_t>(behind - first) * 2);
    UCP_RETURN_IF_ERROR(file_->ReadAt(name_.offset + 2 * first, narrow));
    const std::size_t count = std::min(buffer.size(), static_cast<std::size_t>(4 * behind - offset));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t at = offset + i;
      buffer[i] = at % 4 < 2 ? std::byte{0} : narrow[static_cast<std::size_t>(2 * (at / 4 - first) + at % 4 - 2)];
    }
    buffer = buffer.subspan(count);
    offset += count;
  }
  return llvm::Error::success();
}

}  // namespace ucp
