// Builds our tree from ANTLR's parse tree: declarations, layouts and their items. Private to this folder.
#pragma once

#include <UcpParser.h>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// The version that `ucp 1` names.
inline constexpr std::int64_t kLanguageVersion = 1;

// Builds the tree of `file`, which must come from a parse without syntax errors. Reports mistakes that the grammar
// allows, and leaves out the items that have them; a dim or a fact keeps its name.
ast::File BuildTree(grammar::UcpParser::FileContext& file, const Source& source, DiagnosticSink& sink);

}  // namespace ucp
