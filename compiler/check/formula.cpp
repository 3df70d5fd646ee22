#include "compiler/check/formula.h"

#include <algorithm>

namespace ucp {
namespace {

// Calls `visit` with every node, outer before inner, left before right.
template <typename Visit>
void Walk(const Formula& formula, const Visit& visit) {
  visit(formula);
  for (const Formula& operand : formula.operands) Walk(operand, visit);
}

}  // namespace

bool HasStructure(const Formula& formula) {
  bool found = false;
  Walk(formula, [&](const Formula& node) {
    found = found || node.kind == Formula::Kind::kPad || node.kind == Formula::Kind::kCut;
  });
  return found;
}

std::vector<const Formula*> CutsOf(const Formula& formula) {
  std::vector<const Formula*> cuts;
  Walk(formula, [&](const Formula& node) {
    if (node.kind == Formula::Kind::kCut) cuts.push_back(&node);
  });
  return cuts;
}

std::vector<std::size_t> DimsOf(const Formula& formula) {
  std::vector<std::size_t> dims;
  Walk(formula, [&](const Formula& node) {
    if (node.kind != Formula::Kind::kDim) return;
    if (std::find(dims.begin(), dims.end(), node.index) == dims.end()) dims.push_back(node.index);
  });
  return dims;
}

bool HasCounter(const Formula& formula) {
  bool found = false;
  Walk(formula, [&](const Formula& node) { found = found || node.kind == Formula::Kind::kCounter; });
  return found;
}

}  // namespace ucp
