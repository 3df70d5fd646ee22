#include "compiler/source/source.h"

#include <llvm/Support/ConvertUTF.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

std::size_t LineOfByte(std::string_view text, std::size_t offset) {
  return 1 +
         static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

// The offset of the first byte that does not belong to well-formed UTF-8, or the size of the text.
std::size_t FirstIllFormedByte(std::string_view text) {
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  const auto* position = begin;
  llvm::isLegalUTF8String(&position, begin + text.size());
  return static_cast<std::size_t>(position - begin);
}

}  // namespace

SourceRange Cover(SourceRange a, SourceRange b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

llvm::Expected<Source> Source::FromText(std::string path, std::string text) {
  if (text.size() > kMaxSourceBytes) {
    return Fail(ErrorCode::kUsage, "`{}` has {} bytes, and a spec has at most {}; is this a spec?", path, text.size(),
                kMaxSourceBytes);
  }
  if (std::size_t nul = text.find('\0'); nul != std::string::npos) {
    return Fail(ErrorCode::kUsage, "`{}` has a NUL byte at byte {}, in line {}; is this a spec?", path, nul,
                LineOfByte(text, nul));
  }
  if (std::size_t bad = FirstIllFormedByte(text); bad != text.size()) {
    return Fail(ErrorCode::kUsage, "`{}` is not UTF-8: byte {}, in line {}, is 0x{:02x}; save it as UTF-8", path, bad,
                LineOfByte(text, bad), static_cast<unsigned char>(text[bad]));
  }
  return Source(std::move(path), std::move(text));
}

llvm::Expected<Source> Source::FromFile(const std::string& path) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status)) {
    return Fail(ErrorCode::kIo, "cannot read the spec `{}`: {}", path, error.message());
  }
  if (status.type() != llvm::sys::fs::file_type::regular_file) {
    return Fail(ErrorCode::kUsage, "the spec `{}` is not a regular file", path);
  }
  if (status.getSize() > kMaxSourceBytes) {
    return Fail(ErrorCode::kUsage, "`{}` has {} bytes, and a spec has at most {}", path, status.getSize(),
                kMaxSourceBytes);
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return Fail(ErrorCode::kIo, "cannot read the spec `{}`: {}", path, buffer.getError().message());
  return FromText(path, (*buffer)->getBuffer().str());
}

Source::Source(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)), line_starts_({0}) {
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<std::uint32_t>(i + 1));
  }
}

std::string_view Source::TextOf(SourceRange range) const {
  UCP_CHECK(range.begin <= range.end && range.end <= text_.size(), "range [{}, {}) of a text of {} bytes", range.begin,
            range.end, text_.size());
  return text().substr(range.begin, range.end - range.begin);
}

std::uint32_t Source::LineOf(std::uint32_t offset) const {
  UCP_CHECK(offset <= text_.size(), "offset {} in a text of {} bytes", offset, text_.size());
  auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return static_cast<std::uint32_t>(after - line_starts_.begin());
}

LineColumn Source::Locate(std::uint32_t offset) const {
  std::uint32_t line = LineOf(offset);
  std::uint32_t start = line_starts_[line - 1];
  std::string_view before = TextOf({start, offset});
  auto continuations = std::count_if(before.begin(), before.end(), IsContinuation);
  return {.line = line,
          .column = static_cast<std::uint32_t>(before.size() - static_cast<std::size_t>(continuations) + 1)};
}

SourceRange Source::LineRange(std::uint32_t line) const {
  UCP_CHECK(line >= 1 && line <= line_starts_.size(), "line {} of {}", line, line_starts_.size());
  std::uint32_t begin = line_starts_[line - 1];
  std::uint32_t end = line < line_starts_.size() ? line_starts_[line] - 1 : static_cast<std::uint32_t>(text_.size());
  if (end > begin && text_[end - 1] == '\r') --end;
  return {begin, end};
}

}  // namespace ucp
