#include "compiler/spec/spec.h"

namespace ucp {
namespace {

void AddStages(const std::optional<StagesDeclaration>& stages, References& references) {
  if (!stages) return;
  for (const StageDeclaration& stage : stages->stages) {
    if (stage.number) references.Add(*stage.number);
  }
}

struct ExpressionCollector {
  References& references;

  void operator()(const Condition& condition) const { references.Add(condition); }
  void operator()(const Formula& formula) const { references.Add(formula); }
  void operator()(const std::string&) const {}
  void operator()(const Condition::Operand::FactElement& element) const {
    Condition reads;
    reads.sides.push_back({{}, element});
    references.Add(reads);
  }
  void operator()(const std::vector<FactExpression>& list) const {
    for (const FactExpression& element : list) std::visit(*this, element.value);
  }
};

}  // namespace

References ReferencesOf(const FactExpression& expression) {
  References references;
  std::visit(ExpressionCollector{references}, expression.value);
  return references;
}

References ReferencesOf(const TensorDeclaration& tensor) {
  References references;
  references.Add(tensor.name);
  for (const Formula& dim : tensor.dims) references.Add(dim);
  AddStages(tensor.stages, references);
  if (tensor.scale) {
    references.Add(tensor.scale->numerator);
    references.Add(tensor.scale->denominator);
  }
  return references;
}

References ReferencesOf(const TieDeclaration& tie) {
  References references;
  references.Add(tie.first);
  references.Add(tie.second);
  AddStages(tie.stages, references);
  return references;
}

}  // namespace ucp
