// From bytes to tokens: characters that no grammar rule can take are reported here and left out, so that the parser
// sees the rest. Private to this folder, like everything that names ANTLR.
#pragma once

#include <antlr4-runtime.h>

#include <memory>
#include <set>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// Brackets of all sorts together. The parser descends some ten calls for each.
inline constexpr std::size_t kMaxBracketDepth = 200;

// The parser needs some 500 bytes for each token, so this bounds its memory.
inline constexpr std::size_t kMaxTokens = 1'000'000;

SourceRange RangeOf(const antlr4::Token& token);

struct TokenList {
  std::vector<std::unique_ptr<antlr4::Token>> tokens;  // The last is the end of the spec.
  std::set<std::uint32_t> spoiled_lines;  // Lines with an error already: the parser keeps silent about them.
  bool complete = true;                   // False if reading stopped at a bound; then there is nothing to parse.
};

TokenList ReadTokens(antlr4::TokenSource& lexer, const Source& source, DiagnosticSink& sink);

}  // namespace ucp
