// Words become rows, rows get gaps, gaps are widened to columns; what is left is to write it down. A row that does not
// fit on a line is broken at its weakest gaps, and goes on four columns further in.
#include "compiler/pretty/pretty.h"

#include <algorithm>
#include <vector>

#include "compiler/pretty/columns.h"
#include "compiler/pretty/rows.h"
#include "compiler/pretty/spacing.h"

namespace ucp {
namespace {

using pretty::Gap;
using pretty::kIndent;
using pretty::kLineWidth;
using pretty::Row;

constexpr std::size_t kContinuation = 4;

// One line of output. Comments behind neighbouring lines are put below each other, so they wait.
struct Line {
  std::string code;
  std::string_view comment;
};

// The word that begins the next line, if one begins with word `begin`: the one behind a comment, or, where the line
// would become too long, the last of those with the weakest gap that fit. Linear in the words of the line.
std::size_t EndOfLine(const Row& row, const std::vector<Gap>& gaps, std::size_t begin, std::size_t indent) {
  std::size_t width = indent + pretty::Width(row.words[begin].text);
  std::size_t best = 0;  // None yet.
  for (std::size_t i = begin + 1; i < row.words.size(); ++i) {
    bool too_long = width > kLineWidth;
    if (too_long && best != 0) return best;
    if (gaps[i].forced) return i;
    if (gaps[i].strength != Gap::kNeverBroken && (best == 0 || gaps[i].strength <= gaps[best].strength)) best = i;
    if (row.words[i].kind != pretty::WordKind::kComment) width += gaps[i].blanks + pretty::Width(row.words[i].text);
  }
  return width > kLineWidth && best != 0 ? best : row.words.size();
}

void WriteRow(const Row& row, const std::vector<Gap>& gaps, std::vector<Line>& lines) {
  std::size_t indent = kIndent * row.depth;
  for (std::size_t begin = 0; begin < row.words.size();) {
    std::size_t end = EndOfLine(row, gaps, begin, indent);
    std::string code(indent, ' ');
    for (std::size_t i = begin; i < end; ++i) {
      if (i != begin) code.append(gaps[i].blanks, ' ');
      code += row.words[i].text;
    }
    lines.push_back({std::move(code), {}});
    begin = end;
    indent = kIndent * row.depth + kContinuation;
  }
  lines.back().comment = row.comment;
}

// The comments behind lines[begin, end), all of which have one: below each other if that fits, else two blanks behind.
void AppendComments(std::vector<Line>& lines, std::size_t begin, std::size_t end) {
  std::size_t column = 0;
  for (std::size_t i = begin; i < end; ++i) column = std::max(column, pretty::Width(lines[i].code) + 2);
  bool fits =
      std::all_of(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.begin() + static_cast<std::ptrdiff_t>(end),
                  [&](const Line& line) { return column + pretty::Width(line.comment) <= kLineWidth; });
  for (std::size_t i = begin; i < end; ++i) {
    Line& line = lines[i];
    line.code.append(fits ? column - pretty::Width(line.code) : 2, ' ');
    line.code += line.comment;
  }
}

std::string Join(std::vector<Line> lines) {
  for (std::size_t begin = 0; begin < lines.size();) {
    std::size_t end = begin;
    while (end < lines.size() && !lines[end].comment.empty()) ++end;
    if (end != begin) AppendComments(lines, begin, end);
    begin = std::max(end, begin + 1);
  }
  std::string text;
  for (const Line& line : lines) text += line.code + "\n";
  return text;
}

}  // namespace

std::string Pretty(const Source& source, const ast::File& file) {
  std::vector<Row> rows = pretty::SplitRows(source, file);
  std::vector<std::vector<Gap>> gaps;
  gaps.reserve(rows.size());
  for (const Row& row : rows) gaps.push_back(pretty::Gaps(row));
  pretty::AlignCells(rows, gaps);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].blank_line_before) lines.emplace_back();
    WriteRow(rows[i], gaps[i], lines);
  }
  return Join(std::move(lines));
}

}  // namespace ucp
