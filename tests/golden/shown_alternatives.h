// The alternatives of the tree that a file shows, by name: "expression.cut", "item.when", "cut rule.spread".
#pragma once

#include <set>
#include <string>

#include "compiler/ast/ast.h"

namespace ucp::golden {

void CollectAlternatives(const ast::File& file, std::set<std::string>& shown);

// All that exist.
std::set<std::string> AllAlternatives();

}  // namespace ucp::golden
