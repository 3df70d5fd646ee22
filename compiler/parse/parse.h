// From the text of a spec to its syntax tree. The grammar is grammar/UcpParser.g4; docs/language.md tells it in prose.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// Returns the tree of a whole spec, or nothing after reporting at least one error; several mistakes are found in one
// run. Any text that is a Source is safe to parse: time and memory are linear in it for all practical purposes, and the
// depth of the tree is bounded. Threads may parse at the same time.
std::optional<ast::File> ParseSpec(const Source& source, DiagnosticSink& sink);

// The same, but where the grammar is kept and single items are wrong (an unknown cut rule), the tree is there without
// them, so that the checker finds further mistakes: the sink says whether the tree is good for more than that. `begin`
// is where the file begins that is parsed, which must be the last one of the source.
std::optional<ast::File> ParseSoundItems(const Source& source, DiagnosticSink& sink, std::uint32_t begin = 0);

}  // namespace ucp
