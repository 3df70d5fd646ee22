#include <fmt/format.h>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

// Whatever speaks of a dim or a fact uses it, also in a branch that no checkpoint takes.
class UsedNames {
 public:
  explicit UsedNames(const CheckedSpec& spec) {
    for (const DimDeclaration& dim : spec.dims) {
      AddFormula(dim.definition);
      AddFormula(dim.otherwise);
      AddCondition(dim);
    }
    for (const FactDeclaration& fact : spec.facts) {
      if (fact.definition) Add(ReferencesOf(*fact.definition));
      if (fact.otherwise) Add(ReferencesOf(*fact.otherwise));
      AddCondition(fact);
    }
    AddLayout(spec);
    for (const LayoutDeclaration& layout : spec.layouts) AddLayout(layout);
    if (!spec.model) return;
    for (const PartDeclaration& part : spec.model->parts) {
      for (const Formula& dim : part.dims) AddFormula(dim);
    }
  }

  const References& all() const { return all_; }

 private:
  void AddLayout(const auto& layout) {
    for (const TensorDeclaration& tensor : layout.tensors) AddItem(ReferencesOf(tensor), tensor.guards);
    for (const TieDeclaration& tie : layout.ties) AddItem(ReferencesOf(tie), tie.guards);
    for (const DropDeclaration& drop : layout.drops) {
      References references;
      references.Add(drop.name);
      AddItem(references, drop.guards);
    }
    AddFormula(layout.interleave);
  }

  void Add(const References& more) {
    all_.dims.insert(all_.dims.end(), more.dims.begin(), more.dims.end());
    all_.facts.insert(all_.facts.end(), more.facts.begin(), more.facts.end());
  }

  void AddFormula(const std::optional<Formula>& formula) {
    References references;
    if (formula) references.Add(*formula);
    Add(references);
  }

  void AddCondition(const auto& declaration) {
    References references;
    if (declaration.condition) references.Add(*declaration.condition);
    Add(references);
  }

  void AddItem(const References& item, const Guards& guards) {
    Add(item);
    References references;
    for (const Guard& guard : guards) references.Add(*guard.condition);
    Add(references);
  }

  References all_;
};

template <typename Declaration>
void Warn(const std::vector<Declaration>& declarations, const std::vector<std::size_t>& used, DiagnosticKind kind,
          std::string_view users, DiagnosticSink& sink) {
  std::vector<bool> is_used(declarations.size(), false);
  for (std::size_t index : used) is_used[index] = true;
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    if (is_used[i]) continue;
    sink.Report({.kind = kind,
                 .place = declarations[i].range,
                 .message = fmt::format("no {} uses `{}`", users, declarations[i].name)});
  }
}

}  // namespace

void WarnOfUnused(const CheckedSpec& spec, DiagnosticSink& sink) {
  const UsedNames names(spec);
  const References& used = names.all();
  Warn(spec.dims, used.dims, DiagnosticKind::kUnusedDim, "name, shape or dim", sink);
  Warn(spec.facts, used.facts, DiagnosticKind::kUnusedFact, "condition, shape or fact", sink);
}

}  // namespace ucp
