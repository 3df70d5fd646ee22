#include "compiler/source/source.h"

#include <llvm/Support/ConvertUTF.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

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

llvm::Error CheckText(const std::string& path, std::string_view text) {
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
  return llvm::Error::success();
}

}  // namespace

SourceRange Cover(SourceRange a, SourceRange b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

llvm::Expected<Source> Source::FromText(std::string path, std::string text) {
  UCP_RETURN_IF_ERROR(CheckText(path, text));
  return Source(std::move(path), std::move(text));
}

llvm::Expected<Source> Source::FromFile(const std::string& path) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status)) {
    return Fail(ErrorCode::kIo, "cannot read the spec `{}`: {}", path, SystemReason(error));
  }
  if (status.type() != llvm::sys::fs::file_type::regular_file) {
    return Fail(ErrorCode::kUsage, "the spec `{}` is not a regular file", path);
  }
  if (status.getSize() > kMaxSourceBytes) {
    return Fail(ErrorCode::kUsage, "`{}` has {} bytes, and a spec has at most {}", path, status.getSize(),
                kMaxSourceBytes);
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return Fail(ErrorCode::kIo, "cannot read the spec `{}`: {}", path, SystemReason(buffer.getError()));
  return FromText(path, (*buffer)->getBuffer().str());
}

Source::Source(std::string path, std::string text)
    : files_{File{std::move(path), 0, {}}}, text_(std::move(text)), line_starts_({0}) {
  AddLines(0);
}

// A line break stands between two files, which belongs to neither.
llvm::Expected<std::uint32_t> Source::Append(std::string path, const std::string& text, SourceRange included_from) {
  UCP_RETURN_IF_ERROR(CheckText(path, text));
  if (text_.size() + text.size() >= kMaxSourceBytes) {
    return Fail(ErrorCode::kUsage, "with `{}`, a spec and what it includes have {} bytes, and at most {} are read",
                path, text_.size() + text.size(), kMaxSourceBytes);
  }
  std::size_t break_at = text_.size();
  text_ += '\n';
  text_ += text;
  auto begin = static_cast<std::uint32_t>(break_at + 1);
  files_.push_back({std::move(path), begin, included_from});
  AddLines(break_at);
  return begin;
}

std::vector<Source::FileText> Source::Files() const {
  std::vector<FileText> files;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    // A line break stands before each but the first, which belongs to neither.
    const std::size_t end = f + 1 < files_.size() ? files_[f + 1].begin - 1 : text_.size();
    files.push_back({files_[f].path, text().substr(files_[f].begin, end - files_[f].begin)});
  }
  return files;
}

void Source::AddLines(std::size_t begin) {
  for (std::size_t i = begin; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<std::uint32_t>(i + 1));
  }
}

const Source::File& Source::FileAt(std::uint32_t offset) const {
  auto after = std::upper_bound(files_.begin(), files_.end(), offset,
                                [](std::uint32_t value, const File& file) { return value < file.begin; });
  return *(after - 1);
}

std::size_t Source::LineIndex(std::uint32_t offset) const {
  auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return static_cast<std::size_t>(after - line_starts_.begin()) - 1;
}

std::string_view Source::TextOf(SourceRange range) const {
  UCP_CHECK(range.begin <= range.end && range.end <= text_.size(), "range [{}, {}) of a text of {} bytes", range.begin,
            range.end, text_.size());
  return text().substr(range.begin, range.end - range.begin);
}

std::uint32_t Source::LineOf(std::uint32_t offset) const {
  UCP_CHECK(offset <= text_.size(), "offset {} in a text of {} bytes", offset, text_.size());
  return static_cast<std::uint32_t>(LineIndex(offset) - LineIndex(FileAt(offset).begin) + 1);
}

LineColumn Source::Locate(std::uint32_t offset) const {
  std::uint32_t line = LineOf(offset);
  std::string_view before = TextOf({line_starts_[LineIndex(offset)], offset});
  auto continuations = std::count_if(before.begin(), before.end(), IsContinuation);
  return {.line = line,
          .column = static_cast<std::uint32_t>(before.size() - static_cast<std::size_t>(continuations) + 1)};
}

SourceRange Source::LineAt(std::uint32_t offset) const {
  UCP_CHECK(offset <= text_.size(), "offset {} in a text of {} bytes", offset, text_.size());
  std::size_t line = LineIndex(offset);
  std::uint32_t begin = line_starts_[line];
  std::uint32_t end =
      line + 1 < line_starts_.size() ? line_starts_[line + 1] - 1 : static_cast<std::uint32_t>(text_.size());
  if (end > begin && text_[end - 1] == '\r') --end;
  return {begin, end};
}

}  // namespace ucp
