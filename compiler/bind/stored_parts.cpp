#include "compiler/bind/stored_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/layout/mesh.h"
#include "compiler/spec/part_terms.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

class PartsFinder {
 public:
  PartsFinder(const BoundSpec& bound, DiagnosticSink& sink)
      : bound_(bound), sink_(sink), values_{bound.spec, bound.dims, mesh_, bound.facts}, terms_(bound.spec) {}

  std::optional<StoredParts> Run() {
    const std::size_t errors_before = sink_.error_count();
    for (const PartDeclaration& part : bound_.spec.model->parts) AddPart(part);
    for (std::size_t t = 0; t < bound_.tensors.size() && sink_.error_count() == errors_before; ++t) AddTensor(t);
    if (sink_.error_count() != errors_before) return std::nullopt;
    return std::move(stored_);
  }

 private:
  using Counters = std::vector<std::int64_t>;

  auto LengthsAt(const Counters& counters) {
    return [this, &counters](const Formula& formula) { return Evaluate(formula, values_, counters, sink_); };
  }

  const PartDeclaration& part(std::size_t p) const { return bound_.spec.model->parts[p]; }

  // A part of which this checkpoint stores nothing can have dims that nothing gives a value.
  void AddPart(const PartDeclaration& part) {
    const Counters none;
    const auto length = [&](const Formula& formula) -> std::optional<std::int64_t> {
      return HasValue(formula) ? Evaluate(formula, values_, none, sink_) : std::nullopt;
    };
    factors_.emplace_back();
    Take(terms_.Of(part, length), [&](const PartTerm& term) { factors_.back() = term.factors; });
  }

  bool HasValue(const Formula& formula) const {
    if (formula.kind == Formula::Kind::kDim && !bound_.dims[formula.index]) return false;
    return std::ranges::all_of(formula.operands, [&](const Formula& operand) { return HasValue(operand); });
  }

  template <typename Visit>
  void Take(const PartTerms::Terms& terms, const Visit& visit) {
    if (const auto* problem = std::get_if<TermProblem>(&terms)) {
      Report(DiagnosticKind::kNumberOutOfRange, problem->range, problem->message);
    } else if (const auto* found = std::get_if<std::vector<PartTerm>>(&terms)) {
      for (const PartTerm& term : *found) visit(term);
    }
  }

  void AddTensor(std::size_t t) {
    const BoundTensor& tensor = bound_.tensors[t];
    const TensorDeclaration& declaration = bound_.spec.tensors[tensor.declaration];
    AddShape(declaration, tensor.counters);
    std::map<std::string, PlacedFactor> counted;
    for (std::size_t c = 0; c < declaration.name.counters.size(); ++c) {
      AddCounted(declaration.name.counters[c], tensor.counters, tensor.counters[c], counted);
    }
    Take(terms_.Of(declaration, LengthsAt(tensor.counters)), [&](const PartTerm& term) { AddPiece(t, term, counted); });
  }

  void AddShape(const TensorDeclaration& declaration, const Counters& counters) {
    std::vector<std::int64_t>& shape = stored_.shapes.emplace_back();
    for (const Formula& dim : declaration.dims) shape.push_back(terms_.LengthOf(dim, LengthsAt(counters)).value_or(0));
  }

  // The value of a counter is a place of each factor that it stands for.
  void AddCounted(const Counter& counter, const Counters& counters, std::int64_t value,
                  std::map<std::string, PlacedFactor>& counted) {
    auto factors = terms_.FactorsOf(counter, LengthsAt(counters));
    if (!factors) return;  // A check saw it before.
    for (auto factor = factors->rbegin(); factor != factors->rend(); ++factor) {
      counted[factor->name] = {factor->length, value % std::max<std::int64_t>(factor->length, 1), 0, 0};
      value /= std::max<std::int64_t>(factor->length, 1);
    }
  }

  void AddPiece(std::size_t t, const PartTerm& term, const std::map<std::string, PlacedFactor>& counted) {
    StoredPiece piece;
    piece.part = *FindPart(bound_.spec, term.part);
    piece.tensor = t;
    piece.range = term.range;
    piece.begin = term.begin;
    for (const TermFactor& wanted : factors_[piece.part]) {
      const auto named = std::ranges::find(term.factors, wanted.name, &TermFactor::name);
      const auto in_name = counted.find(wanted.name);
      UCP_CHECK(named != term.factors.end() || in_name != counted.end(), "`{}` lost its factor `{}`", term.part,
                wanted.name);
      PlacedFactor placed = named == term.factors.end()
                                ? in_name->second
                                : PlacedFactor{named->length, std::nullopt, named->dim, named->stride};
      if (placed.length != wanted.length) return ReportLength(t, piece, wanted, placed.length);
      piece.factors.push_back(placed);
    }
    CheckIsFirst(piece);
    stored_.pieces.push_back(std::move(piece));
  }

  void ReportLength(std::size_t t, const StoredPiece& piece, const TermFactor& wanted, std::int64_t length) {
    Report(DiagnosticKind::kPartFactors, piece.range,
           fmt::format("`{}` has {} places of the factor `{}`, of which the part `{}` has {}", bound_.tensors[t].name,
                       length, wanted.name, part(piece.part).name, wanted.length),
           {{wanted.range, "its factor"}});
  }

  // Pieces of one part name the same factors in their tensors' names, and each other places of them.
  void CheckIsFirst(const StoredPiece& piece) {
    Counters places;
    std::vector<bool> is_counted;
    for (const PlacedFactor& factor : piece.factors) {
      is_counted.push_back(factor.counted.has_value());
      if (factor.counted) places.push_back(*factor.counted);
    }
    const std::size_t number = stored_.pieces.size();
    const auto [first, is_new] = first_.try_emplace(piece.part, is_counted, number);
    if (!is_new && first->second.first != is_counted) {
      const StoredPiece& other = stored_.pieces[first->second.second];
      return Report(
          DiagnosticKind::kPartFactors, piece.range,
          fmt::format("the names of `{}` and `{}`, both of the part `{}`, count different factors of it",
                      bound_.tensors[other.tensor].name, bound_.tensors[piece.tensor].name, part(piece.part).name),
          {{other.range, "the other one"}});
    }
    const auto [same, is_first] = stored_at_.try_emplace({piece.part, places}, number);
    if (is_first) return;
    const StoredPiece& other = stored_.pieces[same->second];
    Report(DiagnosticKind::kPartTwice, piece.range,
           fmt::format("`{}` and `{}` store the same elements of the part `{}`", bound_.tensors[other.tensor].name,
                       bound_.tensors[piece.tensor].name, part(piece.part).name),
           {{other.range, "here as well"}});
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message, std::vector<Note> notes = {}) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message), .notes = std::move(notes)});
  }

  const BoundSpec& bound_;
  DiagnosticSink& sink_;
  const Mesh mesh_;
  const Values values_;
  const PartTerms terms_;
  std::vector<std::vector<TermFactor>> factors_;                            // By part.
  std::map<std::size_t, std::pair<std::vector<bool>, std::size_t>> first_;  // By part: of the first piece.
  std::map<std::pair<std::size_t, Counters>, std::size_t> stored_at_;       // By part and counted places.
  StoredParts stored_;
};

}  // namespace

std::int64_t StoredPiece::elements() const {
  std::int64_t elements = 1;
  for (const PlacedFactor& factor : factors) elements *= factor.counted ? 1 : factor.length;
  return elements;
}

std::optional<StoredParts> FindStoredParts(const BoundSpec& bound, DiagnosticSink& sink) {
  return PartsFinder(bound, sink).Run();
}

}  // namespace ucp
