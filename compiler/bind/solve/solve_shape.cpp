#include "compiler/bind/solve/solve_shape.h"

#include <algorithm>

#include "compiler/bind/lower/lower_dim.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

// (factor * x + constant) / divisor
struct Linear {
  std::int64_t factor = 0;
  std::int64_t constant = 0;
  std::int64_t divisor = 1;
};

std::optional<Linear> Make(std::optional<std::int64_t> factor, std::optional<std::int64_t> constant,
                           std::optional<std::int64_t> divisor) {
  if (!factor || !constant || !divisor) return std::nullopt;
  return Linear{*factor, *constant, *divisor};
}

std::optional<Linear> Add(const Linear& a, const Linear& b) {
  auto scale = [](std::int64_t x, std::int64_t x_scale, std::int64_t y,
                  std::int64_t y_scale) -> std::optional<std::int64_t> {
    auto left = CheckedMultiply(x, x_scale);
    auto right = CheckedMultiply(y, y_scale);
    return left && right ? CheckedAdd(*left, *right) : std::nullopt;
  };
  return Make(scale(a.factor, b.divisor, b.factor, a.divisor), scale(a.constant, b.divisor, b.constant, a.divisor),
              CheckedMultiply(a.divisor, b.divisor));
}

std::optional<Linear> Multiply(const Linear& a, const Linear& b) {
  if (a.factor != 0 && b.factor != 0) return std::nullopt;
  const Linear& unknown = a.factor != 0 ? a : b;
  const Linear& known = a.factor != 0 ? b : a;
  return Make(CheckedMultiply(unknown.factor, known.constant), CheckedMultiply(unknown.constant, known.constant),
              CheckedMultiply(unknown.divisor, known.divisor));
}

// A dimension on one rank, as a function of what is unknown in it: a dim, or how much one cut gives.
class LinearForm {
 public:
  LinearForm(const Values& values, const Coordinate& coordinate, std::span<const std::int64_t> counters,
             const Formula* unknown_cut)
      : values_(values), coordinate_(coordinate), counters_(counters), unknown_cut_(unknown_cut) {}

  std::optional<Linear> Of(const Formula& formula) const {
    if (&formula == unknown_cut_) return Linear{1, 0, 1};
    if (IsKnown(formula)) return Known(formula);
    switch (formula.kind) {
      case Formula::Kind::kDim:
        return Linear{1, 0, 1};
      case Formula::Kind::kSum:
      case Formula::Kind::kProduct:
        return Fold(formula);
      case Formula::Kind::kCut:
        return Cut(formula);
      case Formula::Kind::kNumber:
      case Formula::Kind::kElement:
      case Formula::Kind::kLength:
      case Formula::Kind::kCount:
      case Formula::Kind::kCeil:
      case Formula::Kind::kCounter:
      case Formula::Kind::kAxisSize:
      case Formula::Kind::kPad:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool IsKnown(const Formula& formula) const {
    if (!values_.Knows(formula)) return false;
    std::vector<const Formula*> cuts = CutsOf(formula);
    return std::find(cuts.begin(), cuts.end(), unknown_cut_) == cuts.end();
  }

  // A part without unknowns is a number, also when it divides or pads.
  std::optional<Linear> Known(const Formula& formula) const {
    DiagnosticSink ignored;  // The same mistake is reported when the shape is compared.
    auto lowered = LowerDim(formula, values_, counters_, ignored);
    auto local = lowered ? lowered->local.At(coordinate_) : std::nullopt;
    if (!local) return std::nullopt;
    return Linear{0, *local, 1};
  }

  std::optional<Linear> Fold(const Formula& formula) const {
    bool sum = formula.kind == Formula::Kind::kSum;
    std::optional<Linear> total = Linear{0, sum ? 0 : 1, 1};
    for (std::size_t i = 0; i < formula.operands.size() && total; ++i) {
      auto operand = Of(formula.operands[i]);
      Formula::Operator op = formula.operators[i];
      bool served = op == Formula::Operator::kPlus || op == Formula::Operator::kTimes;
      if (!operand || !served) return std::nullopt;
      total = sum ? Add(*total, *operand) : Multiply(*total, *operand);
    }
    return total;
  }

  // Other rules than even give an amount that is not a multiple of the whole.
  std::optional<Linear> Cut(const Formula& formula) const {
    if (formula.rule != CutRule::kEven) return std::nullopt;
    auto inner = Of(formula.operands[0]);
    for (const std::string& axis : formula.axes) {
      if (inner) {
        inner = Make(inner->factor, inner->constant, CheckedMultiply(inner->divisor, values_.mesh.Size(axis)));
      }
    }
    return inner;
  }

  const Values& values_;
  const Coordinate& coordinate_;
  std::span<const std::int64_t> counters_;
  const Formula* unknown_cut_;
};

// The unknown that makes `linear` be `local`.
std::optional<std::int64_t> Solve(const std::optional<Linear>& linear, std::int64_t local) {
  if (!linear || linear->factor <= 0) return std::nullopt;
  auto scaled = CheckedMultiply(local, linear->divisor);
  auto rest = scaled ? CheckedSubtract(*scaled, linear->constant) : std::nullopt;
  if (!rest || *rest < 0 || *rest % linear->factor != 0) return std::nullopt;
  return *rest / linear->factor;
}

}  // namespace

std::optional<SolvedDim> SolveLength(const Formula& formula, std::int64_t local, const Coordinate& coordinate,
                                     const Values& values, std::span<const std::int64_t> counters) {
  std::optional<std::size_t> unknown;
  for (std::size_t dim : DimsOf(formula)) {
    if (values.dims[dim]) continue;
    if (unknown) return std::nullopt;
    unknown = dim;
  }
  if (!unknown) return std::nullopt;
  auto value = Solve(LinearForm(values, coordinate, counters, nullptr).Of(formula), local);
  if (!value) return std::nullopt;
  return SolvedDim{*unknown, *value};
}

std::optional<std::int64_t> SolveWidth(const Formula& formula, const Formula& cut, std::int64_t local,
                                       const Coordinate& coordinate, const Values& values,
                                       std::span<const std::int64_t> counters) {
  return Solve(LinearForm(values, coordinate, counters, &cut).Of(formula), local);
}

}  // namespace ucp
