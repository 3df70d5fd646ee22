#include <fmt/format.h>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

// Whatever speaks of a dim or a fact uses it, also in a branch that no checkpoint takes.
References AllReferences(const CheckedSpec& spec) {
  References all;
  auto add = [&](const References& more) {
    all.dims.insert(all.dims.end(), more.dims.begin(), more.dims.end());
    all.facts.insert(all.facts.end(), more.facts.begin(), more.facts.end());
  };
  auto add_origin = [&](const auto& declaration) {
    References condition;
    if (declaration.condition) condition.Add(*declaration.condition);
    add(condition);
  };
  auto add_guards = [&](const Guards& guards) {
    if (guards.empty()) return;
    References references;
    for (const Guard& guard : guards) references.Add(*guard.condition);
    add(references);
  };
  for (const DimDeclaration& dim : spec.dims) {
    References references;
    if (dim.definition) references.Add(*dim.definition);
    if (dim.otherwise) references.Add(*dim.otherwise);
    add(references);
    add_origin(dim);
  }
  for (const FactDeclaration& fact : spec.facts) {
    if (fact.definition) add(ReferencesOf(*fact.definition));
    if (fact.otherwise) add(ReferencesOf(*fact.otherwise));
    add_origin(fact);
  }
  for (const TensorDeclaration& tensor : spec.tensors) {
    add(ReferencesOf(tensor));
    add_guards(tensor.guards);
  }
  for (const TieDeclaration& tie : spec.ties) {
    add(ReferencesOf(tie));
    add_guards(tie.guards);
  }
  for (const DropDeclaration& drop : spec.drops) {
    References references;
    references.Add(drop.name);
    add(references);
    add_guards(drop.guards);
  }
  References rest;
  if (spec.interleave) rest.Add(*spec.interleave);
  add(rest);
  return all;
}

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
  References used = AllReferences(spec);
  Warn(spec.dims, used.dims, DiagnosticKind::kUnusedDim, "name, shape or dim", sink);
  Warn(spec.facts, used.facts, DiagnosticKind::kUnusedFact, "condition, shape or fact", sink);
}

}  // namespace ucp
