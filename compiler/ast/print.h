// The compact printed form of a tree: one line for each declaration and item, every grouping of an expression in
// parentheses, so that a reader sees what binds to what. Golden tests and dumps show trees in it.
//
//   layout gpt
//     tensor "mlp.{weight|bias}" [(2 * ffn@tp), hidden] at pp.first, unused pp.last
#pragma once

#include <string>

#include "compiler/ast/ast.h"

namespace ucp::ast {

std::string Print(const Expr& expr);
std::string Print(const NamePattern& pattern);  // With the quotes.
std::string Print(const Shape& shape);
std::string Print(const Stages& stages);  // "at pp.first, unused pp.last"
std::string Print(const File& file);      // Lines, each with its line break.

}  // namespace ucp::ast
