// The line of source below a message is cut, not wrapped: a window of the line around the underlined piece, with `…`
// where something was left out.
//
//   whole line   "a.weight" [hidden * heads, ffn@tp * 3 * head, and so on for a thousand columns]
//   underlined                              ^~~~~~
//   window       …* heads, ffn@tp * 3 * head, and…
#include <llvm/Support/Unicode.h>

#include <algorithm>
#include <string_view>

#include "compiler/diagnostics/render.h"
#include "compiler/support/check.h"
#include "compiler/support/printable.h"
#include "fmt/format.h"

namespace ucp {
namespace {

constexpr std::size_t kTabColumns = 4;
constexpr std::string_view kIndent = "  ";

constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kRed = "\033[1;31m";
constexpr std::string_view kYellow = "\033[1;33m";
constexpr std::string_view kCyan = "\033[1;36m";
constexpr std::string_view kGreen = "\033[1;32m";
constexpr std::string_view kPlain = "\033[0m";

std::string_view ColourOf(std::string_view word) {
  if (word == "error:") return kRed;
  if (word == "warning:") return kYellow;
  return word == "note:" || word == "hint:" ? kCyan : kBold;
}

std::string Paint(std::string_view text, std::string_view colour, const TextStyle& style) {
  return style.colours ? fmt::format("{}{}{}", colour, text, kPlain) : std::string(text);
}

// One code point as it is shown: tabs become blanks, and what a terminal would obey instead of showing becomes `?`.
struct Cell {
  std::string shown;
  std::size_t columns = 1;
  std::uint32_t offset = 0;  // Where it begins in the source.
};

std::size_t BytesOfCodePoint(char first) {
  auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

Cell MakeCell(std::string_view code_point, std::uint32_t offset) {
  if (code_point == "\t") return {std::string(kTabColumns, ' '), kTabColumns, offset};
  int columns = llvm::sys::unicode::columnWidthUTF8(llvm::StringRef(code_point.data(), code_point.size()));
  if (columns < 0 || Printable(code_point) != code_point) return {"?", 1, offset};
  return {std::string(code_point), static_cast<std::size_t>(columns), offset};
}

std::vector<Cell> SplitLine(const Source& source, SourceRange line) {
  std::vector<Cell> cells;
  for (std::uint32_t at = line.begin; at < line.end;) {
    auto bytes = static_cast<std::uint32_t>(BytesOfCodePoint(source.text()[at]));
    cells.push_back(MakeCell(source.TextOf({at, at + bytes}), at));
    at += bytes;
  }
  return cells;
}

std::size_t ColumnsOf(const std::vector<Cell>& cells, std::size_t begin, std::size_t end) {
  std::size_t columns = 0;
  for (std::size_t i = begin; i < end; ++i) columns += cells[i].columns;
  return columns;
}

// The cells [first, last) that are shown, and those of them that are underlined.
struct Window {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t marked_begin = 0;
  std::size_t marked_end = 0;
};

// Grows from the beginning of the marked piece: to its end, then a third of the room to the left, then to the right,
// then whatever is left to the left.
Window ChooseWindow(const std::vector<Cell>& cells, std::size_t marked_begin, std::size_t marked_end,
                    std::size_t room) {
  Window window{marked_begin, marked_begin, marked_begin, marked_end};
  std::size_t used = 0;
  auto grow_right = [&](std::size_t limit, std::size_t budget) {
    while (window.last < limit && used + cells[window.last].columns <= budget) used += cells[window.last++].columns;
  };
  auto grow_left = [&](std::size_t budget) {
    while (window.first > 0 && used + cells[window.first - 1].columns <= budget) used += cells[--window.first].columns;
  };
  grow_right(marked_end, room);
  grow_left(std::min(room, used + room / 3));
  grow_right(cells.size(), room);
  grow_left(room);
  window.marked_end = std::min(window.marked_end, window.last);
  return window;
}

std::size_t CellAt(const std::vector<Cell>& cells, std::uint32_t offset) {
  auto found = std::lower_bound(cells.begin(), cells.end(), offset,
                                [](const Cell& cell, std::uint32_t value) { return cell.offset < value; });
  return static_cast<std::size_t>(found - cells.begin());
}

// The caret stands at the beginning of the piece; the rest of it on this line is underlined.
std::string RenderSnippet(const Source& source, SourceRange range, const TextStyle& style) {
  SourceRange line = source.LineAt(range.begin);
  std::vector<Cell> cells = SplitLine(source, line);
  std::size_t begin = CellAt(cells, std::min(range.begin, line.end));
  std::size_t end = std::max(begin, CellAt(cells, std::min(range.end, line.end)));
  std::size_t room = std::max<std::size_t>(style.columns, 20) - kIndent.size() - 2;  // Two for `…` on both sides.
  Window window = ChooseWindow(cells, begin, end, room);

  std::string text = window.first > 0 ? "…" : "";
  std::size_t before = text.empty() ? 0 : 1;
  for (std::size_t i = window.first; i < window.last; ++i) text += cells[i].shown;
  if (window.last < cells.size()) text += "…";
  while (!text.empty() && text.back() == ' ') text.pop_back();
  before += ColumnsOf(cells, window.first, window.marked_begin);
  std::size_t marked = std::max<std::size_t>(1, ColumnsOf(cells, window.marked_begin, window.marked_end));
  std::string underline = "^" + std::string(marked - 1, '~');
  return fmt::format("{}{}\n{}{}{}\n", kIndent, text, kIndent, std::string(before, ' '),
                     Paint(underline, kGreen, style));
}

// `word`: "error:"
std::string RenderMessage(const Source& source, const Place& place, std::string_view word, std::string_view message,
                          const TextStyle& style) {
  std::string where = place.elsewhere;
  if (place.in_spec()) {
    LineColumn at = source.Locate(place.range.begin);
    where = fmt::format("{}:{}:{}", source.PathAt(place.range.begin), at.line, at.column);
  }
  std::string text =
      fmt::format("{}: {} {}\n", Paint(Printable(where), kBold, style), Painted(word, style), Printable(message));
  if (place.in_spec()) text += RenderSnippet(source, place.range, style);
  return text;
}

// Where the file of a diagnostic is included from, and that file, outwards.
std::string RenderIncludes(const Source& source, const Place& place, const TextStyle& style) {
  std::string text;
  if (!place.in_spec()) return text;
  for (SourceRange from = source.IncludedFrom(place.range.begin); !from.empty();
       from = source.IncludedFrom(from.begin)) {
    text += RenderMessage(source, from, "note:", "included from here", style);
  }
  return text;
}

std::string RenderHint(std::string_view hint, const TextStyle& style) {
  std::string text;
  while (!hint.empty()) {
    std::size_t end = std::min(hint.find('\n'), hint.size());
    text += fmt::format("{} {}\n", Painted("hint:", style), Printable(hint.substr(0, end)));
    hint.remove_prefix(std::min(end + 1, hint.size()));
  }
  return text;
}

}  // namespace

std::string Painted(std::string_view word, const TextStyle& style) { return Paint(word, ColourOf(word), style); }

std::string RenderText(const Source& source, const Diagnostic& diagnostic, const TextStyle& style) {
  const DiagnosticKindInfo& info = Describe(diagnostic.kind);
  bool is_error = info.severity == Severity::kError;
  std::string message = fmt::format("{} [{}]", diagnostic.message, info.name);
  std::string text = RenderMessage(source, diagnostic.place, is_error ? "error:" : "warning:", message, style);
  text += RenderIncludes(source, diagnostic.place, style);
  for (const Note& note : diagnostic.notes) {
    text += RenderMessage(source, note.place, "note:", note.message, style);
  }
  return text + RenderHint(diagnostic.hint, style);
}

std::string RenderText(const Source& source, const DiagnosticSink& sink, const TextStyle& style) {
  std::string text;
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    if (style.errors_alone && diagnostic.severity() != Severity::kError) continue;
    text += RenderText(source, diagnostic, style);
  }
  if (sink.dropped_count() != 0)
    text += fmt::format("{}: and {} more\n", Printable(source.path()), sink.dropped_count());
  return text;
}

}  // namespace ucp
