#include "compiler/spec/condition.h"

#include <algorithm>

namespace ucp {
namespace {

void AddOnce(const std::vector<std::size_t>& more, std::vector<std::size_t>& indices) {
  for (std::size_t index : more) {
    if (std::find(indices.begin(), indices.end(), index) == indices.end()) indices.push_back(index);
  }
}

}  // namespace

// Guards are listed from the outermost on, so two lists are equal until the first `when` that tells them apart.
bool ExcludeEachOther(const Guards& a, const Guards& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].condition != b[i].condition) return false;
    if (a[i].holds != b[i].holds) return true;
  }
  return false;
}

std::vector<std::size_t> GuardsUntil(const Guards& guards, std::size_t counters) {
  std::vector<std::size_t> until(counters + 1, guards.size());
  std::size_t needed = 0;
  for (std::size_t i = 0; i < guards.size(); ++i) {
    References references;
    references.Add(*guards[i].condition);
    for (std::size_t counter : references.counters) {
      for (; needed <= counter; ++needed) until[needed] = i;
    }
  }
  return until;
}

void References::Add(const Formula& formula) {
  AddOnce(DimsOf(formula), dims);
  AddOnce(FactsOf(formula), facts);
  AddOnce(CountersOf(formula), counters);
}

void References::Add(const Pattern& pattern) {
  for (const PatternPiece& piece : pattern.pieces) Add(piece.number);
  for (const Counter& counter : pattern.counters) {
    Add(counter.count);
    for (const Formula& cut : counter.cut) Add(cut);
  }
}

void References::Add(const Condition& condition) {
  for (const Condition::Operand& side : condition.sides) {
    if (const auto* formula = std::get_if<Formula>(&side.value)) Add(*formula);
    if (const auto* element = std::get_if<Condition::Operand::FactElement>(&side.value)) {
      AddOnce({element->fact}, facts);
      for (const Formula& position : element->position) Add(position);
    }
  }
  for (const Condition& operand : condition.operands) Add(operand);
  for (const Pattern& name : condition.name) {
    References inner;
    inner.Add(name);
    std::erase_if(inner.counters, [&](std::size_t counter) { return counter >= condition.outer; });
    AddOnce(inner.dims, dims);
    AddOnce(inner.facts, facts);
    AddOnce(inner.counters, counters);
    names.push_back(&condition);
  }
}

}  // namespace ucp
