// Values spread like this: what is given (command line, metadata) comes first. Then, until nothing changes, definitions
// whose dims are known are computed and shapes are solved. When that stands still, one default is taken, the first in
// the order of declaration that can be, and the spreading goes on: a default comes after everything that knows better.
// A declaration with a condition takes part when the condition is known: where it does not hold, only the default and
// the shapes count.
#include "compiler/check/solve_dims.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/known_values.h"
#include "compiler/check/report_missing.h"
#include "compiler/check/solve_shape.h"

namespace ucp {
namespace {

class DimSolver {
 public:
  DimSolver(const CheckedSpec& spec, const InventoryIndex& found, const Settings& set, DiagnosticSink& sink)
      : spec_(spec),
        found_(found),
        sink_(sink),
        known_(spec, found, set, sink),
        samples_(ChooseSamples(spec, found)),
        errors_before_(sink.error_count()) {}

  std::optional<SolvedValues> Run() {
    known_.TakeSettings();
    if (sink_.error_count() != errors_before_) return std::nullopt;  // What follows would follow from that.
    do {
      while (HearAll() || SolveShapes()) {
      }
    } while (TakeOneDefault());
    ReportMissing(known_, spec_, sink_);
    if (sink_.error_count() != errors_before_) return std::nullopt;
    return std::move(known_).Finish();
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
      known_.Learn(dim, DimValue{*value, definition->range, ", by its definition"});
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
      known_.Learn(fact, BoundFact{std::move(outcome.value), definition->range, ", by its definition"});
    }
    progress.wrong = progress.wrong || outcome.state == Truth::kWrong;
    progress.defined = outcome.state != Truth::kOpen;
    return progress.defined;
  }

  bool SolveShapes() {
    bool changed = false;
    for (const Sample& sample : samples_) {
      const TensorDeclaration& tensor = spec_.tensors[sample.declaration];
      const Shard& shard = *sample.shard;
      if (tensor.dims.size() != shard.shape.size() || !IsThere(tensor)) continue;
      for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        auto solved = SolveLength(tensor.dims[i], shard.shape[i], shard.coordinate, known_.values());
        if (!solved || known_.OfDim(solved->dim).wrong) continue;
        known_.Learn(solved->dim, DimValue{solved->value, found_.PlaceOf(shard),
                                           fmt::format(", solved from the shape {} of `{}` at {}", ShapeText(shard),
                                                       shard.tensor, WhereText(shard))});
        changed = true;
      }
    }
    return changed;
  }

  // Only what is known to be there says how large anything is.
  bool IsThere(const TensorDeclaration& tensor) const {
    if (tensor.guards.empty()) return true;
    for (const Guard& guard : tensor.guards) {
      References references;
      references.Add(*guard.condition);
      if (!references.counters.empty()) return false;
    }
    DiagnosticSink ignored;  // The expansion meets the same mistake again.
    return Decide(tensor.guards, known_.values(), {}, ignored) == Truth::kTrue;
  }

  bool TakeOneDefault() {
    for (std::size_t dim = 0; dim < spec_.dims.size(); ++dim) {
      const auto& otherwise = spec_.dims[dim].otherwise;
      Progress& progress = known_.OfDim(dim);
      if (!otherwise || !progress.heard || progress.wrong || known_.HasDim(dim)) continue;
      if (!known_.values().Knows(*otherwise)) continue;
      if (auto value = Evaluate(*otherwise, known_.values(), {}, sink_)) {
        known_.Learn(dim, DimValue{*value, otherwise->range, ", its default"});
      } else {
        progress.wrong = true;
      }
      return true;
    }
    return TakeOneFactDefault();
  }

  bool TakeOneFactDefault() {
    for (std::size_t fact = 0; fact < spec_.facts.size(); ++fact) {
      const auto& otherwise = spec_.facts[fact].otherwise;
      Progress& progress = known_.OfFact(fact);
      if (!otherwise || !progress.heard || progress.wrong || known_.HasFact(fact)) continue;
      FactOutcome outcome = EvaluateFact(*otherwise, known_.values(), sink_);
      if (outcome.state == Truth::kOpen) continue;
      if (outcome.state == Truth::kTrue) {
        known_.Learn(fact, BoundFact{std::move(outcome.value), otherwise->range, ", its default"});
      } else {
        progress.wrong = true;
      }
      return true;
    }
    return false;
  }

  const CheckedSpec& spec_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  KnownValues known_;
  std::vector<Sample> samples_;
  std::size_t errors_before_;
};

}  // namespace

std::optional<SolvedValues> SolveDims(const CheckedSpec& spec, const InventoryIndex& found, const Settings& set,
                                      DiagnosticSink& sink) {
  return DimSolver(spec, found, set, sink).Run();
}

}  // namespace ucp
