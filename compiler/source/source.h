// The text of one spec: its bytes, its line table, and half-open byte ranges into it. The files that it includes stand
// behind it, one after the other in one space of offsets, so that a range says by itself which file it is in.
#pragma once

#include <llvm/Support/Error.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

// The bytes [begin, end) of a spec. Every node of the tree and every diagnostic carries one. An empty range is a place
// between two bytes, such as the end of the file.
struct SourceRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool empty() const { return begin == end; }
  auto operator<=>(const SourceRange&) const = default;
};

// Returns the smallest range that holds both.
SourceRange Cover(SourceRange a, SourceRange b);

// Both count from 1; columns count code points, as editors do.
struct LineColumn {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  bool operator==(const LineColumn&) const = default;
};

inline constexpr std::size_t kMaxSourceBytes = 16u << 20;

// Any thread may read it while nobody appends.
class Source {
 public:
  // `path` is the name that messages use. Refuses, with a sentence: more than kMaxSourceBytes, ill-formed UTF-8, a NUL.
  static llvm::Expected<Source> FromText(std::string path, std::string text);

  // Does the same for a file on disk; fails with kIo if it cannot be read.
  static llvm::Expected<Source> FromFile(const std::string& path);

  const std::string& path() const { return files_.front().path; }  // Of the spec itself.
  std::string_view text() const { return text_; }                  // Of all files.

  // One file of it: the spec itself, or one that it includes.
  struct FileText {
    std::string_view path;
    std::string_view text;
  };
  std::vector<FileText> Files() const;  // The spec first.

  // Puts an included file behind the others and returns the offset at which it begins. `included_from` is the include
  // that names it. Refuses what FromText refuses, and more than kMaxSourceBytes in all.
  llvm::Expected<std::uint32_t> Append(std::string path, const std::string& text, SourceRange included_from);

  // Returns the file that `offset` is in, and what includes it: an empty range for the spec itself.
  const std::string& PathAt(std::uint32_t offset) const { return FileAt(offset).path; }
  SourceRange IncludedFrom(std::uint32_t offset) const { return FileAt(offset).included_from; }
  std::uint32_t OffsetInFile(std::uint32_t offset) const { return offset - FileAt(offset).begin; }

  // The text in `range`, which must lie within the text.
  std::string_view TextOf(SourceRange range) const;

  std::size_t line_count() const { return line_starts_.size(); }

  // Returns the line of a place in its file, counted from 1. `offset` may be at most the size of the text.
  std::uint32_t LineOf(std::uint32_t offset) const;

  // Returns line and column. It reads the line for the column: not for every token of a long one.
  LineColumn Locate(std::uint32_t offset) const;

  // Returns the bytes of the line that `offset` is in, without its line break (\n or \r\n).
  SourceRange LineAt(std::uint32_t offset) const;

 private:
  struct File {
    std::string path;
    std::uint32_t begin = 0;
    SourceRange included_from;
  };

  Source(std::string path, std::string text);
  const File& FileAt(std::uint32_t offset) const;
  std::size_t LineIndex(std::uint32_t offset) const;  // Counted from 0, over all files.
  void AddLines(std::size_t begin);

  std::vector<File> files_;  // By where they begin.
  std::string text_;
  std::vector<std::uint32_t> line_starts_;
};

}  // namespace ucp
