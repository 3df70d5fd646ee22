#include "compiler/trial/reach.h"

#include <fmt/format.h>

#include <algorithm>

namespace ucp {
namespace {

class Numbers {
 public:
  void Add(const Formula& formula) {
    if (formula.kind == Formula::Kind::kNumber) all.insert(formula.number);
    for (const Formula& operand : formula.operands) Add(operand);
  }
  void Add(const std::optional<Formula>& formula) {
    if (formula) Add(*formula);
  }
  void Add(const Condition& condition) {
    for (const Condition::Operand& side : condition.sides) {
      if (const auto* formula = std::get_if<Formula>(&side.value)) Add(*formula);
    }
    for (const Condition& operand : condition.operands) Add(operand);
  }
  void Add(const Guards& guards) {
    for (const Guard& guard : guards) Add(*guard.condition);
  }
  void Add(const Pattern& pattern) {
    for (const Counter& counter : pattern.counters) Add(counter.count);
  }

  std::set<std::int64_t> all;
};

}  // namespace

void Reached::Add(const BoundSpec& bound) {
  for (const BoundTensor& tensor : bound.tensors) {
    tensors.insert(tensor.declaration);
    ties.insert(tensor.ties.begin(), tensor.ties.end());
  }
}

std::vector<std::string> Unreached(const CheckedSpec& spec, const Reached& reached) {
  std::vector<SourceRange> ranges;
  for (std::size_t t = 0; t < spec.tensors.size(); ++t) {
    if (!reached.tensors.contains(t)) ranges.push_back(spec.tensors[t].name.range);
  }
  for (std::size_t t = 0; t < spec.ties.size(); ++t) {
    if (!reached.ties.contains(t)) ranges.push_back(spec.ties[t].second.range);
  }
  std::ranges::sort(ranges, {}, [](const SourceRange& range) { return range.begin; });
  std::vector<std::string> texts;
  for (const SourceRange& range : ranges) {
    texts.push_back(fmt::format("{}: {}", spec.LineOf(range), spec.TextOf(range)));
  }
  return texts;
}

std::set<std::int64_t> NumbersOf(const CheckedSpec& spec) {
  Numbers numbers;
  for (const DimDeclaration& dim : spec.dims) {
    numbers.Add(dim.definition);
    numbers.Add(dim.otherwise);
    if (dim.condition) numbers.Add(*dim.condition);
  }
  for (const TensorDeclaration& tensor : spec.tensors) {
    numbers.Add(tensor.name);
    numbers.Add(tensor.guards);
    for (const Formula& dim : tensor.dims) numbers.Add(dim);
  }
  for (const TieDeclaration& tie : spec.ties) numbers.Add(tie.guards);
  return std::move(numbers.all);
}

}  // namespace ucp
