// One dimension of a tensor as a shape expression with numbers in it, and beside it how many places each coordinate
// holds, by the same arithmetic.
#include "compiler/bind/lower/lower_dim.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/lower/lower_cut.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

using Operator = Formula::Operator;

class Lowerer {
 public:
  Lowerer(const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink)
      : values_(values), counters_(counters), sink_(sink) {}

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
    auto number = Evaluate(formula, values_, counters_, sink_);
    if (!number) return std::nullopt;
    return LoweredDim{ShapeExpr::Length(*number), *number, LocalLengths::Same(*number)};
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
    LoweredDim total{ShapeExpr{}, sum ? 0 : 1, LocalLengths::Same(sum ? 0 : 1)};
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
    auto join = [&](std::int64_t a, std::int64_t b) { return sum ? CheckedAdd(a, b) : CheckedMultiply(a, b); };
    auto logical = join(total.logical, part->logical);
    auto local = ucp::Combine(total.local, part->local, join);
    if (!logical || !local) return TooLarge(formula);
    total.logical = *logical;
    total.local = std::move(*local);
    parts.push_back(std::move(part->expr));
    return true;
  }

  bool TooLarge(const Formula& formula) {
    Report(DiagnosticKind::kNumberOutOfRange, formula, "this does not fit in 63 bits");
    return false;
  }

  std::optional<LoweredDim> Pad(const Formula& formula) {
    auto inner = Run(formula.operands[0]);
    auto multiple = Evaluate(formula.operands[1], values_, counters_, sink_);
    if (!inner || !multiple) return std::nullopt;
    if (*multiple == 0) {
      Report(DiagnosticKind::kNumberOutOfRange, formula.operands[1], "nothing can be padded to a multiple of 0");
      return std::nullopt;
    }
    auto padded = CheckedMultiply(CeilDivide(inner->logical, *multiple), *multiple);  // A padded length is not cut.
    if (!padded) {
      TooLarge(formula);
      return std::nullopt;
    }
    return LoweredDim{ShapeExpr::Pad(std::move(inner->expr), *multiple), inner->logical, LocalLengths::Same(*padded)};
  }

  std::optional<LoweredDim> Cut(const Formula& formula) {
    auto inner = Run(formula.operands[0]);
    if (!inner) return std::nullopt;
    return LowerCut(formula, std::move(*inner), values_, counters_, sink_);
  }

  void Report(DiagnosticKind kind, const Formula& formula, std::string message) {
    sink_.Report(
        {.kind = kind, .place = formula.range, .message = std::move(message), .notes = NotesOf(formula, values_)});
  }

  const Values& values_;
  std::span<const std::int64_t> counters_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<LoweredDim> LowerDim(const Formula& formula, const Values& values, std::span<const std::int64_t> counters,
                                   DiagnosticSink& sink) {
  return Lowerer(values, counters, sink).Run(formula);
}

}  // namespace ucp
