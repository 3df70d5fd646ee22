// Putting the cells of neighbouring rows below each other. Private to this folder.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/pretty/rows.h"
#include "compiler/pretty/spacing.h"

namespace ucp::pretty {

inline constexpr std::size_t kLineWidth = 120;  // Of code; a comment is never broken.
inline constexpr std::size_t kIndent = 2;

// Returns how many columns a terminal or an editor gives the text: code points.
std::size_t Width(std::string_view text);

// Returns the width from the indentation to the last word, on one line.
std::size_t Width(const Row& row, const std::vector<Gap>& gaps);

// Widens gaps between cells. A row that would become too long stays as it is, and so does one whose name is so long
// that others would become too long. `gaps` has an entry for each row.
void AlignCells(const std::vector<Row>& rows, std::vector<std::vector<Gap>>& gaps);

}  // namespace ucp::pretty
