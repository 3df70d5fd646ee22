// The text of one spec: its bytes, its line table, and half-open byte ranges into it.
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

// The smallest range that holds both.
SourceRange Cover(SourceRange a, SourceRange b);

// Both count from 1; columns count code points, as editors do.
struct LineColumn {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  bool operator==(const LineColumn&) const = default;
};

inline constexpr std::size_t kMaxSourceBytes = 16u << 20;

// Immutable after construction, so any thread may read it.
class Source {
 public:
  // `path` is the name that messages use. Refuses, with a sentence: more than kMaxSourceBytes, ill-formed UTF-8, a NUL.
  static llvm::Expected<Source> FromText(std::string path, std::string text);

  // The same for a file on disk; fails with kIo if it cannot be read.
  static llvm::Expected<Source> FromFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::string_view text() const { return text_; }

  // What stands in `range`, which must lie within the text.
  std::string_view TextOf(SourceRange range) const;

  std::size_t line_count() const { return line_starts_.size(); }

  // The line of a place, counted from 1. `offset` may be at most the size of the text.
  std::uint32_t LineOf(std::uint32_t offset) const;

  // With the column, for which it reads the line: not for every token of a long one.
  LineColumn Locate(std::uint32_t offset) const;

  // The bytes of a line, counted from 1, without its line break (\n or \r\n).
  SourceRange LineRange(std::uint32_t line) const;

 private:
  Source(std::string path, std::string text);

  std::string path_;
  std::string text_;
  std::vector<std::uint32_t> line_starts_;
};

}  // namespace ucp
