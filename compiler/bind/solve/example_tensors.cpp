// Most names say by themselves which declaration they belong to, whatever the dims are: those are found first. A name
// that two branches of a `when` give, or a shape or a branch that depends on a counter, needs the counters: such a
// declaration is expanded once all that its names and guards speak of is known, and the first of its names that the
// header has is taken.
#include "compiler/bind/solve/example_tensors.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/spec/variant.h"

namespace ucp {
namespace {

bool SpeakOfCounters(const Guards& guards) {
  return std::any_of(guards.begin(), guards.end(), [](const Guard& guard) {
    References references;
    references.Add(*guard.condition);
    return !references.counters.empty();
  });
}

}  // namespace

ExampleTensors::ExampleTensors(const Values& values, const InventoryIndex& found)
    : values_(values), found_(found), expander_(values_, ignored_), choices_(values.spec.tensors.size()) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const TensorDeclaration& tensor = values_.spec.tensors[i];
    choices_[i].guards_count = SpeakOfCounters(tensor.guards);
    choices_[i].counts = choices_[i].guards_count || std::any_of(tensor.dims.begin(), tensor.dims.end(), HasCounter);
  }
  ChooseByName();
}

void ExampleTensors::ChooseByName() {
  struct Candidate {
    std::size_t declaration;
    Variant variant;
  };
  std::unordered_map<std::string, std::vector<Candidate>> by_skeleton;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    for (Variant& variant : VariantsOf(values_.spec.tensors[i].name, *values_.spec.source)) {
      std::string skeleton = variant.skeleton;
      by_skeleton[std::move(skeleton)].push_back({i, std::move(variant)});
    }
  }
  for (const FoundTensor& tensor : found_.tensors()) {
    auto candidates = by_skeleton.find(SkeletonOf(tensor.name));
    if (candidates == by_skeleton.end()) continue;
    const Candidate* fit = nullptr;
    std::size_t fits = 0;
    for (const Candidate& candidate : candidates->second) {
      if (!FitsLiterals(tensor.name, candidate.variant)) continue;
      fit = &candidate;
      ++fits;
    }
    if (fits != 1 || choices_[fit->declaration].by_name != nullptr) continue;
    choices_[fit->declaration].by_name = tensor.shards.front();
  }
}

std::optional<ExampleTensor> ExampleTensors::Of(std::size_t declaration) {
  const TensorDeclaration& tensor = values_.spec.tensors[declaration];
  Choice& choice = choices_[declaration];
  bool needs_counters = choice.counts || choice.by_name == nullptr;
  if (needs_counters && !choice.expanded && KnowsItsNames(tensor)) ChooseByCounters(declaration);
  if (choice.by_counters) return choice.by_counters;
  if (choice.by_name == nullptr || choice.guards_count) return std::nullopt;
  DiagnosticSink ignored;
  if (Decide(tensor.guards, values_, {}, ignored) != Truth::kTrue) return std::nullopt;
  return ExampleTensor{choice.by_name, {}};
}

bool ExampleTensors::KnowsItsNames(const TensorDeclaration& tensor) const {
  if (found_.tensors().empty()) return false;
  bool local = std::any_of(tensor.name.counters.begin(), tensor.name.counters.end(),
                           [](const Counter& counter) { return counter.local; });
  if (local && !found_.names_layers()) return false;
  References needed;
  needed.Add(tensor.name);
  for (const Guard& guard : tensor.guards) needed.Add(*guard.condition);
  return values_.Knows(needed);
}

void ExampleTensors::ChooseByCounters(std::size_t declaration) {
  const TensorDeclaration& tensor = values_.spec.tensors[declaration];
  Choice& choice = choices_[declaration];
  choice.expanded = true;
  auto names = expander_.Expand(tensor.name, tensor.guards);
  if (!names) return;
  for (ExpandedName& name : *names) {
    const FoundTensor* found = found_.Find(name.name);
    if (found == nullptr) continue;
    choice.by_counters = ExampleTensor{found->shards.front(), std::move(name.counters)};
    return;
  }
}

}  // namespace ucp
