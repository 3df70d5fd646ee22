#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "compiler/bind/match_names.h"
#include "compiler/bind/values/expand_pattern.h"
#include "compiler/support/spelling.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

class SpecExpander {
 public:
  SpecExpander(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink), expander_(values, sink) {}

  std::optional<ExpandedSpec> Run() {
    std::size_t errors_before = sink_.error_count();
    const CheckedSpec& spec = values_.spec;
    for (std::size_t i = 0; i < spec.tensors.size(); ++i) AddTensors(i);
    if (sink_.error_count() != errors_before)
      return std::nullopt;  // A tie may speak of a tensor that is not there now.
    for (std::size_t i = 0; i < spec.ties.size(); ++i) AddTies(i);
    for (const DropDeclaration& drop : spec.drops) AddDrops(drop);
    expander_.decisions().ReportPartlyThere();
    if (sink_.error_count() != errors_before) return std::nullopt;
    expanded_.choices = expander_.decisions().Choices();
    return std::move(expanded_);
  }

 private:
  void AddTensors(std::size_t declaration) {
    const Pattern& pattern = values_.spec.tensors[declaration].name;
    auto names = expander_.Expand(pattern, values_.spec.tensors[declaration].guards);
    if (!names) return;
    for (ExpandedName& name : *names) {
      if (!Claim(name.name, pattern, expanded_.tensors.size())) return;
      BoundTensor bound;
      bound.name = std::move(name.name);
      bound.declaration = declaration;
      bound.stage_counter = name.stage_counter;
      bound.counters = std::move(name.counters);
      bound.place = expanded_.tensors.size();
      expanded_.tensors.push_back({std::move(bound), name.variant});
    }
  }

  // A name outside of the blocks is looked up for each choice of the counters around the tie, which stand together.
  void AddTies(std::size_t tie) {
    const TieDeclaration& declaration = values_.spec.ties[tie];
    auto all = expander_.Expand(declaration.second, declaration.guards);
    if (!all) return;
    const auto outer_of = [&](const ExpandedName& name) { return std::span(name.counters).first(declaration.outer); };
    for (std::span<const ExpandedName> rest(*all); !rest.empty();) {
      const std::span<const std::int64_t> outer = outer_of(rest.front());
      const auto other = std::ranges::find_if_not(
          rest, [&](const ExpandedName& name) { return std::ranges::equal(outer_of(name), outer); });
      const auto seconds = rest.first(static_cast<std::size_t>(other - rest.begin()));
      if (!AddTies(tie, seconds, outer)) return;
      rest = rest.subspan(seconds.size());
    }
  }

  // Both sides expand in the same order, so the names at the same place belong together. False after reporting.
  bool AddTies(std::size_t tie, std::span<const ExpandedName> seconds, std::span<const std::int64_t> outer) {
    const TieDeclaration& declaration = values_.spec.ties[tie];
    auto firsts = expander_.Expand(declaration.first, declaration.guards, outer);
    if (!firsts) return false;
    if (seconds.size() != firsts->size()) {
      Report(DiagnosticKind::kAmbiguousPatterns, declaration.second.range,
             fmt::format("a tie gives each tensor one second name, and here are {} for {}",
                         Counted(seconds.size(), "name"), Counted(firsts->size(), "tensor")),
             {{declaration.first.range, "the tensors"}});
      return false;
    }
    for (std::size_t i = 0; i < firsts->size(); ++i) {
      auto first = claims_.find((*firsts)[i].name);
      if (first == claims_.end() || first->second.tensor == kNoTensor) {
        ReportUnknownFirst((*firsts)[i].name, declaration.first);
        return false;
      }
      std::size_t tensor = first->second.tensor;
      if (!Claim(seconds[i].name, declaration.second, kNoTensor)) return false;
      expanded_.tensors[tensor].bound.aliases.push_back(seconds[i].name);
      expanded_.tensors[tensor].bound.ties.push_back(tie);
    }
    return true;
  }

  void AddDrops(const DropDeclaration& drop) {
    auto names = expander_.Expand(drop.name, drop.guards);
    if (!names) return;
    for (ExpandedName& name : *names) {
      if (!Claim(name.name, drop.name, kNoTensor)) return;
      expanded_.drops.push_back(std::move(name.name));
    }
  }

  bool Claim(const std::string& name, const Pattern& pattern, std::size_t tensor) {
    auto [entry, added] = claims_.emplace(name, ClaimedBy{&pattern, tensor});
    if (added) return true;
    bool same = entry->second.pattern == &pattern;
    Report(DiagnosticKind::kAmbiguousPatterns, pattern.range,
           same ? fmt::format("this pattern gives the name `{}` twice", name)
                : fmt::format("two patterns give the name `{}`", name),
           same ? std::vector<Note>{} : std::vector<Note>{{entry->second.pattern->range, "the other pattern"}});
    return false;
  }

  void ReportUnknownFirst(const std::string& name, const Pattern& first) {
    std::vector<std::string> names;
    for (const auto& tensor : expanded_.tensors) names.push_back(tensor.bound.name);
    Diagnostic diagnostic{.kind = DiagnosticKind::kUnknownName,
                          .place = first.range,
                          .message = fmt::format("no pattern declares a tensor `{}`", name)};
    auto nearest = NearestNames(name, names, 1);
    if (!nearest.empty()) diagnostic.hint = fmt::format("the nearest name is `{}`", nearest.front());
    sink_.Report(std::move(diagnostic));
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message, std::vector<Note> notes) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message), .notes = std::move(notes)});
  }

  static constexpr std::size_t kNoTensor = static_cast<std::size_t>(-1);
  struct ClaimedBy {
    const Pattern* pattern;
    std::size_t tensor;
  };

  const Values& values_;
  DiagnosticSink& sink_;
  Expander expander_;
  ExpandedSpec expanded_;
  std::unordered_map<std::string, ClaimedBy> claims_;
};

}  // namespace

std::optional<ExpandedSpec> ExpandSpec(const Values& values, DiagnosticSink& sink) {
  return SpecExpander(values, sink).Run();
}

}  // namespace ucp
