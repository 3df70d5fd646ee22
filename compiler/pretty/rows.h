// A spec as rows: one for each declaration, item, brace that closes, and comment with a line of its own. A row has
// cells, of which the first words of neighbouring rows may be put below each other. Private to this folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/pretty/words.h"

namespace ucp::pretty {

// Rows whose cells are put below each other have the same one. Never reused in a spec.
using ColumnGroup = std::size_t;

struct Row {
  std::size_t depth = 0;           // How many braces are open around it.
  bool blank_line_before = false;  // At most one is kept, and none behind an opening brace or before a closing one.
  std::vector<Word> words;         // With the comments between them. One comment alone for a comment's own row.
  std::vector<std::size_t> cells;  // Where the second cell begins, and the third, as indices of `words`.
  std::optional<ColumnGroup> group;
  std::string_view comment;  // The comment behind the row on its line; empty for none.

  bool is_comment() const { return words.front().kind == WordKind::kComment; }
};

// `file` must be the tree of `source`, which must outlive the rows.
std::vector<Row> SplitRows(const Source& source, const ast::File& file);

}  // namespace ucp::pretty
