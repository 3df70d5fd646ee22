// One dimension of a tensor as a shape expression with numbers in it. Cuts are even, so the length on one rank follows
// without asking which rank.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/evaluate.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

using Operator = Formula::Operator;

class Lowerer {
 public:
  Lowerer(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink) {}

  std::optional<LoweredDim> Run(const Formula& formula) {
    if (!HasStructure(formula) && !IsProduct(formula)) return Number(formula);
    switch (formula.kind) {
      case Formula::Kind::kSum:
      case Formula::Kind::kProduct:
        return Combine(formula);
      case Formula::Kind::kPad:
        return Pad(formula);
      case Formula::Kind::kCut:
        return Cut(formula);
      default:
        UCP_UNREACHABLE();
    }
  }

 private:
  // A product of numbers alone is shown with its factors too, unless it divides.
  static bool IsProduct(const Formula& formula) {
    return (formula.kind == Formula::Kind::kProduct || formula.kind == Formula::Kind::kSum) &&
           std::all_of(formula.operators.begin(), formula.operators.end(),
                       [](Operator op) { return op == Operator::kPlus || op == Operator::kTimes; });
  }

  std::optional<LoweredDim> Number(const Formula& formula) {
    auto number = Evaluate(formula, values_, {}, sink_);
    if (!number) return std::nullopt;
    return LoweredDim{ShapeExpr::Length(*number), *number, *number};
  }

  // Divisions stand before everything that is cut (build_formula.cpp), so the factors up to the last one are one
  // number.
  std::optional<LoweredDim> Combine(const Formula& formula) {
    std::size_t plain = 0;
    for (std::size_t i = 0; i < formula.operators.size(); ++i) {
      bool joins = formula.operators[i] == Operator::kPlus || formula.operators[i] == Operator::kTimes;
      if (!joins) plain = i + 1;
    }
    bool sum = formula.kind == Formula::Kind::kSum;
    LoweredDim total{ShapeExpr{}, sum ? 0 : 1, sum ? 0 : 1};
    std::vector<ShapeExpr> parts;
    if (plain != 0 && !Append(formula, Number(Prefix(formula, plain)), total, parts)) return std::nullopt;
    for (std::size_t i = plain; i < formula.operands.size(); ++i) {
      if (!Append(formula, Run(formula.operands[i]), total, parts)) return std::nullopt;
    }
    if (parts.size() == 1) {
      total.expr = std::move(parts[0]);
    } else {
      total.expr = sum ? ShapeExpr::Sum(std::move(parts)) : ShapeExpr::Product(std::move(parts));
    }
    return total;
  }

  static Formula Prefix(const Formula& formula, std::size_t count) {
    Formula prefix = formula;
    prefix.operands.resize(count);
    prefix.operators.resize(count);
    return prefix;
  }

  bool Append(const Formula& formula, std::optional<LoweredDim> part, LoweredDim& total,
              std::vector<ShapeExpr>& parts) {
    if (!part) return false;
    bool sum = formula.kind == Formula::Kind::kSum;
    auto logical = sum ? CheckedAdd(total.logical, part->logical) : CheckedMultiply(total.logical, part->logical);
    auto local = sum ? CheckedAdd(total.local, part->local) : CheckedMultiply(total.local, part->local);
    if (!logical || !local) return TooLarge(formula);
    total.logical = *logical;
    total.local = *local;
    parts.push_back(std::move(part->expr));
    return true;
  }

  bool TooLarge(const Formula& formula) {
    Report(DiagnosticKind::kNumberOutOfRange, formula, "this does not fit in 63 bits");
    return false;
  }

  std::optional<LoweredDim> Pad(const Formula& formula) {
    auto inner = Run(formula.operands[0]);
    auto multiple = Evaluate(formula.operands[1], values_, {}, sink_);
    if (!inner || !multiple) return std::nullopt;
    if (*multiple == 0) {
      Report(DiagnosticKind::kNumberOutOfRange, formula.operands[1], "nothing can be padded to a multiple of 0");
      return std::nullopt;
    }
    auto padded = CheckedMultiply(CeilDivide(inner->local, *multiple), *multiple);
    if (!padded) {
      TooLarge(formula);
      return std::nullopt;
    }
    return LoweredDim{ShapeExpr::Pad(std::move(inner->expr), *multiple), inner->logical, *padded};
  }

  std::optional<LoweredDim> Cut(const Formula& formula) {
    auto inner = Run(formula.operands[0]);
    if (!inner) return std::nullopt;
    std::optional<std::int64_t> degree = 1;
    for (const std::string& axis : formula.axes) {
      if (degree) degree = CheckedMultiply(*degree, values_.mesh.Size(axis));
    }
    if (!degree) {
      TooLarge(formula);
      return std::nullopt;
    }
    if (inner->local % *degree != 0) return ReportUneven(formula, inner->local, *degree);
    inner->local /= *degree;
    inner->expr = ShapeExpr::Cut(std::move(inner->expr), formula.axes);
    return inner;
  }

  std::nullopt_t ReportUneven(const Formula& cut, std::int64_t places, std::int64_t degree) {
    std::vector<Note> notes = NotesOf(cut, values_);
    notes.push_back({values_.spec.mesh->range, fmt::format("the mesh is {}", ToString(values_.mesh))});
    sink_.Report(
        {.kind = DiagnosticKind::kUnevenCut,
         .place = cut.cut_range,
         .message = fmt::format("`{}` is {} and does not divide over {} ranks of `{}`",
                                values_.spec.TextOf(cut.operands[0].range), places, degree, fmt::join(cut.axes, ", ")),
         .notes = std::move(notes)});
    return std::nullopt;
  }

  void Report(DiagnosticKind kind, const Formula& formula, std::string message) {
    sink_.Report(
        {.kind = kind, .place = formula.range, .message = std::move(message), .notes = NotesOf(formula, values_)});
  }

  const Values& values_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<LoweredDim> LowerDim(const Formula& formula, const Values& values, DiagnosticSink& sink) {
  return Lowerer(values, sink).Run(formula);
}

}  // namespace ucp
