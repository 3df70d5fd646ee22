#include "compiler/bind/solve/report_missing.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/solve/count_names.h"
#include "compiler/bind/solve/reachable_declarations.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

class MissingReporter {
 public:
  MissingReporter(KnownValues& known, const CheckedSpec& spec, ExampleTensors& samples, DiagnosticSink& sink)
      : known_(known),
        spec_(spec),
        samples_(samples),
        sink_(sink),
        values_(known.values()),
        live_(values_),
        dims_seen_(spec.dims.size(), false),
        facts_seen_(spec.facts.size(), false) {}

  void Run() {
    for (const TensorDeclaration& tensor : spec_.tensors) {
      Need(tensor.name, tensor.guards, [&] { return ReferencesOf(tensor); });
    }
    for (const TieDeclaration& tie : spec_.ties) Need(tie.first, tie.guards, [&] { return ReferencesOf(tie); });
    for (const DropDeclaration& drop : spec_.drops) {
      Need(drop.name, drop.guards, [&] {
        References references;
        references.Add(drop.name);
        return references;
      });
    }
    if (spec_.interleave) {
      References references;
      references.Add(*spec_.interleave);
      Follow(references);
    }
    // Defaults that need each other: none of them is a root, and any of them may be given.
    if (sink_.has_errors() || !first_) return;
    first_->is_dim ? ReportDim(first_->index) : ReportFact(first_->index);
  }

 private:
  struct Named {
    bool is_dim;
    std::size_t index;
  };

  // Where it is open whether an item is there, what its guards wait for is missing, and not yet what is in it.
  template <typename MakeReferences>
  void Need(const Pattern& name, const Guards& guards, const MakeReferences& references) {
    switch (live_.Of(name, guards)) {
      case Truth::kTrue:
        return Follow(references());
      case Truth::kOpen:
        return FollowGuards(name, guards);
      case Truth::kFalse:
      case Truth::kWrong:
        return;
    }
  }

  void FollowGuards(const Pattern& name, const Guards& guards) {
    References waits;
    for (const Guard& guard : guards) waits.Add(*guard.condition);
    for (std::size_t i = 0; i < name.counters.size(); ++i) {
      bool asked = false;
      for (std::size_t counter : waits.counters) asked = asked || counter >= i;
      if (asked) waits.Add(name.counters[i].count);
    }
    Follow(waits);
  }

  void Follow(const References& references) {
    std::vector<Named> open;
    Push(references, open);
    while (!open.empty()) {
      Named next = open.back();
      open.pop_back();
      next.is_dim ? FollowDim(next.index, open) : FollowFact(next.index, open);
    }
  }

  // Returns whether anything of it is missing, here or behind.
  bool Push(const References& references, std::vector<Named>& open) {
    std::size_t before = open.size();
    for (std::size_t dim : references.dims) {
      if (!known_.HasDim(dim)) open.push_back({true, dim});
    }
    for (std::size_t fact : references.facts) {
      if (!known_.HasFact(fact)) open.push_back({false, fact});
    }
    bool asks = false;
    for (const Condition* name : references.names) asks = AskName(*name) || asks;
    if (!first_ && open.size() != before) first_ = open[before];
    return asks || open.size() != before;
  }

  // A name that only a header could tell, and there is none.
  bool AskName(const Condition& condition) {
    SourceRange name = condition.name[0].range;
    if (known_.header().exists() || condition.is_block) return false;
    if (known_.header().GivenBySettings(spec_.TextOf(name)) != Truth::kOpen) return false;
    sink_.Report({.kind = DiagnosticKind::kFactWithoutValue,
                  .place = condition.range,
                  .message = "the header of a checkpoint says whether it has such a tensor, and there is no checkpoint",
                  .hint = fmt::format("say it with `{}`",
                                      OptionName(UserOption::kSets, fmt::format("has {}=true", spec_.TextOf(name))))});
    return true;
  }

  void FollowDim(std::size_t dim, std::vector<Named>& open) {
    if (dims_seen_[dim] || known_.OfDim(dim).wrong) return;
    dims_seen_[dim] = true;
    const DimDeclaration& declaration = spec_.dims[dim];
    const auto& value =
        declaration.definition && !IsLeftOut(known_.OfDim(dim)) ? declaration.definition : declaration.otherwise;
    References needs;
    if (value) needs.Add(*value);
    if (!FollowOrigin(declaration.condition, known_.OfDim(dim), needs, open)) ReportDim(dim);
  }

  void FollowFact(std::size_t fact, std::vector<Named>& open) {
    if (facts_seen_[fact] || known_.OfFact(fact).wrong) return;
    facts_seen_[fact] = true;
    const FactDeclaration& declaration = spec_.facts[fact];
    const auto& value =
        declaration.definition && !IsLeftOut(known_.OfFact(fact)) ? declaration.definition : declaration.otherwise;
    References needs;
    if (value) needs = ReferencesOf(*value);
    if (!FollowOrigin(declaration.condition, known_.OfFact(fact), needs, open)) ReportFact(fact);
  }

  // The definition is computed only if its condition holds.
  static bool IsLeftOut(const Progress& progress) { return progress.heard && progress.defined; }

  bool FollowOrigin(const std::optional<Condition>& condition, const Progress& progress, const References& needs,
                    std::vector<Named>& open) {
    if (!condition || progress.heard) return Push(needs, open);
    References waits;
    waits.Add(*condition);
    return Push(waits, open);
  }

  static std::vector<Note> PathNotes(const std::vector<MetadataPath>& paths) {
    std::vector<Note> notes;
    for (const MetadataPath& path : paths) {
      notes.push_back({path.range, fmt::format("the checkpoint's metadata has no `{}`", path.dotted)});
    }
    return notes;
  }

  void ReportDim(std::size_t index) {
    const DimDeclaration& dim = spec_.dims[index];
    std::vector<Note> notes = PathNotes(dim.from);
    if (auto why = WhyNoNameTells(index)) notes.push_back(std::move(*why));
    if (auto why = WhyNoShapeTells(index)) notes.push_back(std::move(*why));
    sink_.Report({.kind = DiagnosticKind::kDimWithoutValue,
                  .place = dim.range,
                  .message = fmt::format("nothing says how large `{}` is, and no shape tells", dim.name),
                  .notes = std::move(notes),
                  .hint = fmt::format("give it with `{}`", OptionName(UserOption::kSets, dim.name + "=NUMBER"))});
  }

  std::optional<Note> WhyNoNameTells(std::size_t dim) const {
    const auto counted = CountNames(dim, values_, samples_.found());
    if (!counted || !counted->missing) return std::nullopt;
    return Note{samples_.found().PlaceOf(*counted->last->shards.front()),
                fmt::format("the names go from `{}` to `{}`, and none has the number {} of the counter",
                            counted->first->name, counted->last->name, *counted->missing)};
  }

  // At the first dimension that speaks of it.
  std::optional<Note> WhyNoShapeTells(std::size_t dim) {
    if (!known_.header().exists()) return std::nullopt;
    for (std::size_t i = 0; i < spec_.tensors.size(); ++i) {
      for (const Formula& formula : spec_.tensors[i].dims) {
        std::vector<std::size_t> dims = DimsOf(formula);
        if (std::find(dims.begin(), dims.end(), dim) == dims.end()) continue;
        return Note{formula.range, WhyNotSolved(i, dim, dims)};
      }
    }
    return std::nullopt;
  }

  std::string WhyNotSolved(std::size_t declaration, std::size_t dim, const std::vector<std::size_t>& dims) {
    for (std::size_t other : dims) {
      if (other == dim || known_.HasDim(other)) continue;
      return fmt::format("here `{}` has no value either", spec_.dims[other].name);
    }
    if (!samples_.Of(declaration)) return "no tensor of the checkpoint is known to be this one";
    return "only a sum, a product or an even cut outside of `pad` tells, and what it tells must be a whole number";
  }

  void ReportFact(std::size_t index) {
    const FactDeclaration& fact = spec_.facts[index];
    sink_.Report({.kind = DiagnosticKind::kFactWithoutValue,
                  .place = fact.range,
                  .message = fmt::format("nothing says what `{}` is", fact.name),
                  .notes = PathNotes(fact.from),
                  .hint = fmt::format("give it with `{}`, or a default with `else`",
                                      OptionName(UserOption::kSets, fact.name + "=VALUE"))});
  }

  KnownValues& known_;
  const CheckedSpec& spec_;
  ExampleTensors& samples_;
  DiagnosticSink& sink_;
  Values values_;
  ReachableDeclarations live_;
  std::vector<bool> dims_seen_;
  std::vector<bool> facts_seen_;
  std::optional<Named> first_;
};

}  // namespace

void ReportMissing(KnownValues& known, const CheckedSpec& spec, ExampleTensors& samples, DiagnosticSink& sink) {
  MissingReporter(known, spec, samples, sink).Run();
}

}  // namespace ucp
