#include "compiler/spec/formula.h"

#include <algorithm>

namespace ucp {
namespace {

// Calls `visit` with every node, outer before inner, left before right; what a cut rule is given comes last.
template <typename Visit>
void Walk(const Formula& formula, const Visit& visit) {
  visit(formula);
  for (const Formula& operand : formula.operands) Walk(operand, visit);
  for (const Formula& number : formula.argument.numbers) Walk(number, visit);
  for (const std::vector<Formula>& list : formula.argument.lists) {
    for (const Formula& number : list) Walk(number, visit);
  }
  for (const Formula& position : formula.argument.position) Walk(position, visit);
}

void AddOnce(std::size_t index, std::vector<std::size_t>& indices) {
  if (std::find(indices.begin(), indices.end(), index) == indices.end()) indices.push_back(index);
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

bool TakesHeaderWidths(const Formula& cut) {
  return cut.kind == Formula::Kind::kCut && cut.rule == CutRule::kWidths &&
         cut.argument.kind == CutArgument::Kind::kNone;
}

std::vector<std::size_t> DimsOf(const Formula& formula) {
  std::vector<std::size_t> dims;
  Walk(formula, [&](const Formula& node) {
    if (node.kind == Formula::Kind::kDim) AddOnce(node.index, dims);
  });
  return dims;
}

std::vector<std::size_t> FactsOf(const Formula& formula) {
  std::vector<std::size_t> facts;
  Walk(formula, [&](const Formula& node) {
    const bool reads = node.kind == Formula::Kind::kElement || node.kind == Formula::Kind::kLength ||
                       node.kind == Formula::Kind::kCount;
    if (reads) AddOnce(node.index, facts);
    if (node.argument.kind == CutArgument::Kind::kFact) AddOnce(node.argument.fact, facts);
  });
  return facts;
}

std::vector<std::size_t> CountersOf(const Formula& formula) {
  std::vector<std::size_t> counters;
  Walk(formula, [&](const Formula& node) {
    if (node.kind == Formula::Kind::kCounter) AddOnce(node.index, counters);
  });
  return counters;
}

bool HasCounter(const Formula& formula) {
  bool found = false;
  Walk(formula, [&](const Formula& node) { found = found || node.kind == Formula::Kind::kCounter; });
  return found;
}

}  // namespace ucp
