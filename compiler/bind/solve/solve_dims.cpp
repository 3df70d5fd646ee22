// Values spread like this: what is given (command line, metadata) comes first. Then, until nothing changes, definitions
// whose dims are known are computed and shapes are solved. When that stands still, one default is taken, the first in
// the order of declaration that can be, and the spreading goes on: a default comes after everything that knows better.
// The count of a counter that nobody says is counted in the names after that, one dim at a time. Names that count from
// 0 on every stage get their layers' own numbers in between, since a condition may ask for them. A declaration with a
// condition takes part when the condition is known: where it does not hold, only the default and the shapes count.
#include "compiler/bind/solve/solve_dims.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/lower/stages.h"
#include "compiler/bind/solve/count_names.h"
#include "compiler/bind/solve/example_tensors.h"
#include "compiler/bind/solve/known_values.h"
#include "compiler/bind/solve/local_names.h"
#include "compiler/bind/solve/report_missing.h"
#include "compiler/bind/solve/solve_shape.h"

namespace ucp {
namespace {

class DimSolver {
 public:
  DimSolver(const CheckedSpec& spec, InventoryIndex& found, const Settings& set, DiagnosticSink& sink)
      : spec_(spec),
        found_(found),
        sink_(sink),
        known_(spec, found, set, sink),
        samples_(known_.values(), found),
        errors_before_(sink.error_count()) {}

  std::optional<SolvedValues> Run() {
    known_.TakeSettings();
    if (sink_.error_count() != errors_before_) return std::nullopt;  // Later errors would follow from that one.
    do {
      while (HearAll() || SolveShapes() || (KnowsLayers(known_.values()) && NameLayers())) {
      }
    } while (TakeOneDefault() || CountOneDim() || NameLayers());
    if (wrong_layers_) return std::nullopt;
    ReportMissing(known_, spec_, samples_, sink_);
    if (sink_.error_count() != errors_before_) return std::nullopt;
    SolvedValues solved = std::move(known_).Finish();
    solved.shard_names = std::move(shard_names_);
    return solved;
  }

 private:
  // Metadata and definitions that can be asked now.
  bool HearAll() {
    bool changed = false;
    for (std::size_t dim = 0; dim < spec_.dims.size(); ++dim) {
      if (Ready(spec_.dims[dim].condition, known_.OfDim(dim)) && !known_.OfDim(dim).heard) {
        known_.ReadDim(dim);
        changed = true;
      }
      changed = ComputeDim(dim) || changed;
    }
    for (std::size_t fact = 0; fact < spec_.facts.size(); ++fact) {
      if (Ready(spec_.facts[fact].condition, known_.OfFact(fact)) && !known_.OfFact(fact).heard) {
        known_.ReadFact(fact);
        changed = true;
      }
      changed = ComputeFact(fact) || changed;
    }
    return changed;
  }

  // Whether `from` and the definition count. Once the condition is known not to hold, they are done with.
  bool Ready(const std::optional<Condition>& condition, Progress& progress) {
    if (progress.wrong || (progress.heard && progress.defined)) return false;
    if (!condition || progress.heard) return true;
    Truth truth = Decide(*condition, known_.values(), {}, sink_);
    if (truth == Truth::kWrong) progress.wrong = true;
    if (truth == Truth::kFalse) progress.heard = progress.defined = true;
    return truth == Truth::kTrue;
  }

  bool ComputeDim(std::size_t dim) {
    const auto& definition = spec_.dims[dim].definition;
    Progress& progress = known_.OfDim(dim);
    if (!progress.heard || progress.defined || progress.wrong) return false;
    if (definition && !known_.values().Knows(*definition)) return false;
    progress.defined = true;
    if (!definition) return false;
    if (auto value = Evaluate(*definition, known_.values(), {}, sink_)) {
      References needs;
      needs.Add(*definition);
      known_.Learn(dim, DimValue{*value, definition->range, ", by its definition", known_.values().Assumes(needs)});
    } else {
      progress.wrong = true;
    }
    return true;
  }

  bool ComputeFact(std::size_t fact) {
    const auto& definition = spec_.facts[fact].definition;
    Progress& progress = known_.OfFact(fact);
    if (!progress.heard || progress.defined || progress.wrong) return false;
    progress.defined = true;
    if (!definition) return false;
    FactOutcome outcome = EvaluateFact(*definition, known_.values(), sink_);
    if (outcome.state == Truth::kTrue) {
      bool assumed = known_.values().Assumes(ReferencesOf(*definition));
      known_.Learn(fact, BoundFact{std::move(outcome.value), definition->range, ", by its definition", assumed});
    }
    progress.wrong = progress.wrong || outcome.state == Truth::kWrong;
    progress.defined = outcome.state != Truth::kOpen;
    return progress.defined;
  }

  bool SolveShapes() {
    bool changed = false;
    for (std::size_t declaration = 0; declaration < spec_.tensors.size(); ++declaration) {
      auto sample = samples_.Of(declaration);
      const std::vector<Formula>& dims = spec_.tensors[declaration].dims;
      if (!sample || dims.size() != sample->shard->shape.size()) continue;
      const Shard& shard = *sample->shard;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (sample->counters.empty() && HasCounter(dims[i])) continue;
        auto solved = SolveLength(dims[i], shard.shape[i], shard.coordinate, known_.values(), sample->counters);
        if (!solved || known_.OfDim(solved->dim).wrong) continue;
        known_.Learn(solved->dim, DimValue{solved->value, found_.PlaceOf(shard),
                                           fmt::format(", solved from the shape {} of `{}` at {}", ShapeText(shard),
                                                       shard.tensor, WhereText(shard))});
        changed = true;
      }
    }
    return changed;
  }

  // Whether it has been done now.
  bool NameLayers() {
    if (found_.tensors().empty() || found_.names_layers() || wrong_layers_) return false;
    Values values = known_.values();
    auto interleave =
        spec_.interleave && !values.Knows(*spec_.interleave) ? 1 : ResolveInterleave(std::nullopt, values, sink_);
    if (interleave) values.interleave = *interleave;
    auto names = interleave ? NamesOfLayers(values, found_.inventory(), sink_) : std::nullopt;
    wrong_layers_ = !names;
    if (!names) return false;
    shard_names_ = std::move(*names);
    found_.NameLayers(shard_names_);
    return true;
  }

  bool TakeOneDefault() {
    for (std::size_t dim = 0; dim < spec_.dims.size(); ++dim) {
      const auto& otherwise = spec_.dims[dim].otherwise;
      Progress& progress = known_.OfDim(dim);
      if (!otherwise || !progress.heard || progress.wrong || known_.HasDim(dim)) continue;
      if (!known_.values().Knows(*otherwise)) continue;
      if (auto value = Evaluate(*otherwise, known_.values(), {}, sink_)) {
        References needs;
        needs.Add(*otherwise);
        known_.Learn(dim,
                     DimValue{*value, otherwise->range, ", its default", IsGuess(spec_.dims[dim].condition, needs)});
      } else {
        progress.wrong = true;
      }
      return true;
    }
    return TakeOneFactDefault();
  }

  // Behind a condition that is known not to hold, the default is what the spec says, and no stopgap.
  bool IsGuess(const std::optional<Condition>& condition, References needs) const {
    if (!condition) return true;
    DiagnosticSink ignored;
    if (Decide(*condition, known_.values(), {}, ignored) != Truth::kFalse) return true;
    needs.Add(*condition);
    return known_.values().Assumes(needs);
  }

  bool TakeOneFactDefault() {
    for (std::size_t fact = 0; fact < spec_.facts.size(); ++fact) {
      const auto& otherwise = spec_.facts[fact].otherwise;
      Progress& progress = known_.OfFact(fact);
      if (!otherwise || !progress.heard || progress.wrong || known_.HasFact(fact)) continue;
      FactOutcome outcome = EvaluateFact(*otherwise, known_.values(), sink_);
      if (outcome.state == Truth::kOpen) continue;
      if (outcome.state == Truth::kTrue) {
        bool guess = IsGuess(spec_.facts[fact].condition, ReferencesOf(*otherwise));
        known_.Learn(fact, BoundFact{std::move(outcome.value), otherwise->range, ", its default", guess});
      } else {
        progress.wrong = true;
      }
      return true;
    }
    return false;
  }

  // The rest in branches that are not taken needs no value, and hears this no harm.
  bool CountOneDim() {
    if (found_.tensors().empty()) return false;
    for (std::size_t dim = 0; dim < spec_.dims.size(); ++dim) {
      const Progress& progress = known_.OfDim(dim);
      if (!progress.heard || progress.wrong || known_.HasDim(dim)) continue;
      const auto counted = CountNames(dim, known_.values(), found_);
      if (!counted || counted->missing) continue;
      known_.Learn(dim, DimValue{counted->count, found_.PlaceOf(*counted->last->shards.front()),
                                 fmt::format(", counted in the names from `{}` to `{}`", counted->first->name,
                                             counted->last->name)});
      return true;
    }
    return false;
  }

  const CheckedSpec& spec_;
  InventoryIndex& found_;
  DiagnosticSink& sink_;
  KnownValues known_;
  ExampleTensors samples_;
  std::vector<std::string> shard_names_;
  bool wrong_layers_ = false;  // A mistake in the names of layers was reported.
  std::size_t errors_before_;
};

}  // namespace

std::optional<SolvedValues> SolveDims(const CheckedSpec& spec, InventoryIndex& found, const Settings& set,
                                      DiagnosticSink& sink) {
  return DimSolver(spec, found, set, sink).Run();
}

}  // namespace ucp
