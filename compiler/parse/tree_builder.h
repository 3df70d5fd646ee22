// From ANTLR's parse tree to our tree: declarations, layouts and their items. Private to this folder.
#pragma once

#include <UcpParser.h>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// `file` must come from a parse without syntax errors. Reports what the grammar is too generous about, and leaves out
// the items that it is about; a dim or a fact keeps its name.
inline constexpr std::int64_t kLanguageVersion = 1;

ast::File BuildTree(grammar::UcpParser::FileContext& file, const Source& source, DiagnosticSink& sink);

}  // namespace ucp
