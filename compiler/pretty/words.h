// A spec as a row of words: the lexer's tokens, and the comments, which it skips. Private to this folder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/source/source.h"

namespace ucp::pretty {

enum class WordKind : std::uint8_t {
  kWord,     // A name, a keyword or a number.
  kString,   // With its quotes; what stands between them is never touched.
  kSymbol,   // "{", "==", "@"
  kComment,  // From its slashes on, without blanks at its end.
};

struct Word {
  WordKind kind = WordKind::kSymbol;
  std::string_view text;  // A part of the source's text.
  std::uint32_t begin = 0;
  bool first_on_line = false;
  bool blank_line_before = false;  // One or more.
};

// The text must be one that parses. `source` must outlive the words.
std::vector<Word> SplitWords(const Source& source);

}  // namespace ucp::pretty
