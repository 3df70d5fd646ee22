// Follows definitions and conditions depth first. A dim or fact that is met again while it is being followed is part of
// a cycle; each cycle is reported once, at the name that closes it. An explicit stack, because a chain of definitions
// may be very long. Defaults are left out: which of them are taken is not known yet.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

class CycleFinder {
 public:
  CycleFinder(const CheckedSpec& spec, DiagnosticSink& sink)
      : spec_(spec), sink_(sink), state_(spec.dims.size() + spec.facts.size(), State::kNew) {}

  void Run() {
    for (std::size_t node = 0; node < state_.size(); ++node) {
      if (state_[node] == State::kNew) Follow(node);
    }
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };

  // The needs of `node`, and the definition or condition that says so.
  struct Need {
    std::size_t node;
    SourceRange range;
  };
  struct Step {
    std::size_t node;
    std::vector<Need> needs;
    std::size_t next = 0;
  };

  // Dims come first, and facts behind them.
  const std::string& NameOf(std::size_t node) const {
    return node < spec_.dims.size() ? spec_.dims[node].name : spec_.facts[node - spec_.dims.size()].name;
  }
  SourceRange RangeOf(std::size_t node) const {
    return node < spec_.dims.size() ? spec_.dims[node].range : spec_.facts[node - spec_.dims.size()].range;
  }

  std::vector<Need> NeedsOf(std::size_t node) const {
    std::vector<Need> needs;
    auto add = [&](const References& references, SourceRange range) {
      for (std::size_t dim : references.dims) needs.push_back({dim, range});
      for (std::size_t fact : references.facts) needs.push_back({spec_.dims.size() + fact, range});
    };
    auto add_condition = [&](const std::optional<Condition>& condition) {
      if (!condition) return;
      References references;
      references.Add(*condition);
      add(references, condition->range);
    };
    if (node < spec_.dims.size()) {
      const DimDeclaration& dim = spec_.dims[node];
      References references;
      if (dim.definition) references.Add(*dim.definition);
      if (dim.definition) add(references, dim.definition->range);
      add_condition(dim.condition);
    } else {
      const FactDeclaration& fact = spec_.facts[node - spec_.dims.size()];
      if (fact.definition) add(ReferencesOf(*fact.definition), fact.definition->range);
      add_condition(fact.condition);
    }
    return needs;
  }

  void Open(std::size_t node) {
    state_[node] = State::kOpen;
    path_.push_back({node, NeedsOf(node)});
  }

  void Follow(std::size_t start) {
    Open(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next == step.needs.size()) {
        state_[step.node] = State::kDone;
        path_.pop_back();
        continue;
      }
      std::size_t needed = step.needs[step.next++].node;
      if (state_[needed] == State::kOpen) Report(needed);
      if (state_[needed] == State::kNew) Open(needed);
    }
  }

  void Report(std::size_t closing) {
    auto first = std::find_if(path_.begin(), path_.end(), [&](const Step& step) { return step.node == closing; });
    Diagnostic diagnostic{.kind = DiagnosticKind::kCyclicDefinition,
                          .place = RangeOf(closing),
                          .message = fmt::format("`{}` is defined by itself", NameOf(closing))};
    for (auto step = first; step != path_.end(); ++step) {
      const Need& need = step->needs[step->next - 1];
      diagnostic.notes.push_back({need.range, fmt::format("`{}` needs `{}`", NameOf(step->node), NameOf(need.node))});
    }
    sink_.Report(std::move(diagnostic));
  }

  const CheckedSpec& spec_;
  DiagnosticSink& sink_;
  std::vector<State> state_;
  std::vector<Step> path_;
};

}  // namespace

void CheckCycles(const CheckedSpec& spec, DiagnosticSink& sink) { CycleFinder(spec, sink).Run(); }

}  // namespace ucp
