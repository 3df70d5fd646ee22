#include "compiler/bind/values/evaluate_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/layout/fact_value.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

using Operator = Formula::Operator;

class Evaluator {
 public:
  Evaluator(const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink)
      : values_(values), counters_(counters), sink_(sink) {}

  std::optional<std::int64_t> Run(const Formula& formula) {
    switch (formula.kind) {
      case Formula::Kind::kNumber:
        return formula.number;
      case Formula::Kind::kDim:
        UCP_CHECK(values_.dims[formula.index], "dim {} has no value", formula.index);
        return values_.dims[formula.index]->value;
      case Formula::Kind::kCounter:
        return counters_[formula.index];
      case Formula::Kind::kAxisSize:
        return values_.mesh.Size(formula.axis);
      case Formula::Kind::kSum:
      case Formula::Kind::kProduct:
        return Fold(formula);
      case Formula::Kind::kElement:
        return Element(formula);
      case Formula::Kind::kLength:
        return Length(formula);
      case Formula::Kind::kCount:
        return Count(formula);
      case Formula::Kind::kCeil:
        return Ceil(formula);
      case Formula::Kind::kPad:
      case Formula::Kind::kCut:
        break;
    }
    UCP_UNREACHABLE();
  }

  std::nullopt_t Report(DiagnosticKind kind, const Formula& formula, std::string message) {
    sink_.Report(
        {.kind = kind, .place = formula.range, .message = std::move(message), .notes = NotesOf(formula, values_)});
    return std::nullopt;
  }

 private:
  std::optional<std::int64_t> Fold(const Formula& formula) {
    std::int64_t total = formula.kind == Formula::Kind::kSum ? 0 : 1;
    for (std::size_t i = 0; i < formula.operands.size(); ++i) {
      auto operand = Run(formula.operands[i]);
      if (!operand) return std::nullopt;
      auto next = Apply(formula, formula.operators[i], total, *operand);
      if (!next) return std::nullopt;
      total = *next;
    }
    return total;
  }

  std::optional<std::int64_t> Apply(const Formula& formula, Operator op, std::int64_t left, std::int64_t right) {
    std::optional<std::int64_t> result;
    switch (op) {
      case Operator::kPlus:
        result = CheckedAdd(left, right);
        break;
      case Operator::kMinus:
        result = CheckedSubtract(left, right);
        break;
      case Operator::kTimes:
        result = CheckedMultiply(left, right);
        break;
      case Operator::kDivide:
      case Operator::kModulo:
        return Divide(formula, op, left, right);
    }
    if (!result) return Report(DiagnosticKind::kNumberOutOfRange, formula, "this does not fit in 63 bits");
    return result;
  }

  std::optional<std::int64_t> Element(const Formula& formula) {
    const FactValue* element = ElementOf(formula.index, formula.operands[0], formula.range, values_, counters_, sink_);
    if (!element) return std::nullopt;
    if (const auto* number = std::get_if<std::int64_t>(&element->value)) return *number;
    return Report(DiagnosticKind::kTypeMismatch, formula,
                  fmt::format("this is {}, {}, and a number is needed", KindOf(*element), TextOf(*element)));
  }

  // The list that kLength and kCount speak of, or what stands in its place; null after reporting.
  const FactValue* ListOf(const Formula& formula) {
    if (formula.operands.empty()) return &values_.facts[formula.index]->value;
    return ElementOf(formula.index, formula.operands[0], formula.range, values_, counters_, sink_);
  }

  std::optional<std::int64_t> Length(const Formula& formula) {
    const FactValue* whole = ListOf(formula);
    if (!whole) return std::nullopt;
    if (const auto* list = std::get_if<std::vector<FactValue>>(&whole->value)) return std::ssize(*list);
    return Report(DiagnosticKind::kTypeMismatch, formula,
                  fmt::format("only a list has a length, and this is {}, {}", KindOf(*whole), TextOf(*whole)));
  }

  std::optional<std::int64_t> Count(const Formula& formula) {
    const FactValue* whole = ListOf(formula);
    if (!whole) return std::nullopt;
    if (const auto* list = std::get_if<std::vector<FactValue>>(&whole->value)) {
      return std::ranges::count(*list, FactValue{formula.text});
    }
    return Report(
        DiagnosticKind::kTypeMismatch, formula,
        fmt::format("only elements of a list are counted, and this is {}, {}", KindOf(*whole), TextOf(*whole)));
  }

  std::optional<std::int64_t> Ceil(const Formula& formula) {
    auto number = Run(formula.operands[0]);
    auto multiple = Run(formula.operands[1]);
    if (!number || !multiple) return std::nullopt;
    if (*number < 0 || *multiple < 1) {
      return Report(DiagnosticKind::kNumberOutOfRange, formula,
                    fmt::format("this rounds {} up to a multiple of {}; the number is from 0 on, and the multiple "
                                "from 1 on",
                                *number, *multiple));
    }
    auto rounded = CheckedMultiply(CeilDivide(*number, *multiple), *multiple);
    if (!rounded) return Report(DiagnosticKind::kNumberOutOfRange, formula, "this does not fit in 63 bits");
    return rounded;
  }

  std::optional<std::int64_t> Divide(const Formula& formula, Operator op, std::int64_t left, std::int64_t right) {
    if (right == 0) {
      return Report(DiagnosticKind::kInexactDivision, formula, fmt::format("this divides {} by zero", left));
    }
    if (op == Operator::kModulo && (left < 0 || right < 0)) {
      return Report(
          DiagnosticKind::kNumberOutOfRange, formula,
          fmt::format("this is the remainder of {} by {}, and a remainder is taken of numbers from 0 on", left, right));
    }
    if (right == -1) return CheckedSubtract(0, left);  // The one quotient that can overflow.
    if (op == Operator::kModulo) return left % right;
    if (left % right != 0) {
      return Report(DiagnosticKind::kInexactDivision, formula,
                    fmt::format("{} divided by {} leaves {}, and a division must be exact", left, right, left % right));
    }
    return left / right;
  }

  const Values& values_;
  std::span<const std::int64_t> counters_;
  DiagnosticSink& sink_;
};

}  // namespace

bool Values::Knows(const Formula& formula) const {
  References needed;
  needed.Add(formula);
  return Knows(needed);
}

bool Values::Knows(const References& needed) const {
  return std::all_of(needed.dims.begin(), needed.dims.end(), [&](std::size_t dim) { return dims[dim].has_value(); }) &&
         std::all_of(needed.facts.begin(), needed.facts.end(),
                     [&](std::size_t fact) { return facts[fact].has_value(); });
}

bool Values::Assumes(const References& references) const {
  return std::any_of(references.dims.begin(), references.dims.end(),
                     [&](std::size_t dim) { return dims[dim] && dims[dim]->assumed; }) ||
         std::any_of(references.facts.begin(), references.facts.end(),
                     [&](std::size_t fact) { return facts[fact] && facts[fact]->assumed; });
}

std::vector<Note> NotesOf(const References& references, const Values& values) {
  std::vector<Note> notes;
  for (std::size_t dim : references.dims) {
    if (!values.dims[dim]) continue;
    const DimValue& value = *values.dims[dim];
    notes.push_back({value.place, fmt::format("`{}` is {}{}", values.spec.dims[dim].name, value.value, value.origin)});
  }
  for (std::size_t fact : references.facts) {
    if (!values.facts[fact]) continue;
    const BoundFact& value = *values.facts[fact];
    notes.push_back(
        {value.place, fmt::format("`{}` is {}{}", values.spec.facts[fact].name, TextOf(value.value), value.origin)});
  }
  return notes;
}

std::vector<Note> NotesOf(const Formula& formula, const Values& values) {
  References references;
  references.Add(formula);
  return NotesOf(references, values);
}

std::vector<Note> NotesOf(const Condition& condition, const Values& values) {
  References references;
  references.Add(condition);
  return NotesOf(references, values);
}

const FactValue* ElementOf(std::size_t fact, const Formula& position, SourceRange range, const Values& values,
                           std::span<const std::int64_t> counters, DiagnosticSink& sink) {
  auto index = Evaluate(position, values, counters, sink);
  if (!index) return nullptr;
  const std::string& name = values.spec.facts[fact].name;
  References references;
  references.facts.push_back(fact);
  references.Add(position);
  const auto* list = std::get_if<std::vector<FactValue>>(&values.facts[fact]->value.value);
  if (!list) {
    sink.Report({.kind = DiagnosticKind::kTypeMismatch,
                 .place = range,
                 .message = fmt::format("`{}` is {} and no list", name, KindOf(values.facts[fact]->value)),
                 .notes = NotesOf(references, values)});
    return nullptr;
  }
  if (static_cast<std::size_t>(*index) < list->size()) return &(*list)[static_cast<std::size_t>(*index)];
  sink.Report({.kind = DiagnosticKind::kIndexOutOfRange,
               .place = range,
               .message = fmt::format("`{}` has {} element{}, counted from 0, and `{}` is {}", name, list->size(),
                                      list->size() == 1 ? "" : "s", values.spec.TextOf(position.range), *index),
               .notes = NotesOf(references, values)});
  return nullptr;
}

std::optional<std::int64_t> EvaluateSigned(const Formula& formula, const Values& values,
                                           std::span<const std::int64_t> counters, DiagnosticSink& sink) {
  return Evaluator(values, counters, sink).Run(formula);
}

std::optional<std::int64_t> Evaluate(const Formula& formula, const Values& values,
                                     std::span<const std::int64_t> counters, DiagnosticSink& sink) {
  Evaluator evaluator(values, counters, sink);
  auto number = evaluator.Run(formula);
  if (number && *number < 0) {
    return evaluator.Report(DiagnosticKind::kNumberOutOfRange, formula,
                            fmt::format("this is {}, which is negative", *number));
  }
  return number;
}

std::optional<Scale> EvaluateScale(const ScaleDeclaration& scale, const Values& values, DiagnosticSink& sink) {
  auto numerator = Evaluate(scale.numerator, values, {}, sink);
  auto denominator = Evaluate(scale.denominator, values, {}, sink);
  if (!numerator || !denominator) return std::nullopt;
  if (*numerator != 0 && *denominator != 0) {
    std::int64_t common = std::gcd(*numerator, *denominator);
    return Scale{*numerator / common, *denominator / common};
  }
  std::vector<Note> notes = NotesOf(scale.numerator, values);
  for (Note& note : NotesOf(scale.denominator, values)) notes.push_back(std::move(note));
  sink.Report({.kind = *denominator == 0 ? DiagnosticKind::kInexactDivision : DiagnosticKind::kNumberOutOfRange,
               .place = scale.range,
               .message = *denominator == 0 ? fmt::format("this divides {} by zero", *numerator)
                                            : "a scale of 0 would lose every value",
               .notes = std::move(notes)});
  return std::nullopt;
}

}  // namespace ucp
