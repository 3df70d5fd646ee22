// Decides the space between two words of one row, and where a row that is too long may be broken. Private to this
// folder.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/pretty/rows.h"

namespace ucp::pretty {

// The context before a word.
struct Gap {
  std::size_t blanks = 0;
  int strength = kNeverBroken;  // How tightly the words hold together: a line is broken at its weakest place.
  bool forced = false;          // A comment stands there, so the line must end.

  static constexpr int kNeverBroken = 1 << 20;
};

// Returns one gap for each word of the row; the first says nothing.
std::vector<Gap> Gaps(const Row& row);

}  // namespace ucp::pretty
