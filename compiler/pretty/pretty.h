// The one true form of a spec: `ucpc fmt`.
#pragma once

#include <string>

#include "compiler/ast/ast.h"
#include "compiler/source/source.h"

namespace ucp {

// Returns the text of `source`, whose tree is `file`, with other blanks and line breaks between the same words:
//
// - one declaration or item on each line, two blanks of indentation for each brace, at most one blank line in a row;
// - names, shapes and stages of a layout below each other, and so the sources of neighbouring dims and facts;
// - lines of at most 120 columns where the words allow it;
// - comments where they were: behind their line, or above the next one. Inside of an item they end their line.
//
// Formatting the result gives the result again. Time is linear in the text but for sorting.
std::string Pretty(const Source& source, const ast::File& file);

}  // namespace ucp
