// Arithmetic of numbers that the spec itself gives. A division that leaves a remainder there can never be exact,
// whatever the checkpoint, so it is an error before there is one. Values that depend on anything else are left to
// bind/evaluate.cpp.
#include <fmt/format.h>

#include "compiler/check/declarations.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

class Constants {
 public:
  Constants(const CheckedSpec& spec, DiagnosticSink& sink) : spec_(spec), sink_(sink), of_dims_(spec.dims.size()) {}

  void Run() {
    for (std::size_t dim = 0; dim < spec_.dims.size(); ++dim) Follow(dim);
    for (const DimDeclaration& dim : spec_.dims) {
      if (dim.otherwise) Of(*dim.otherwise);
      if (dim.definition && !IsGiven(dim)) Of(*dim.definition);
    }
  }

 private:
  using Number = std::optional<std::int64_t>;
  struct Known {
    bool is_done = false;
    Number value;
  };

  // Nothing but its definition says what it is.
  static bool IsGiven(const DimDeclaration& dim) { return dim.from.empty() && !dim.condition && dim.definition; }

  // First what a definition needs. An explicit stack, because a chain of definitions may be very long; they form no
  // cycle.
  void Follow(std::size_t first) {
    std::vector<std::size_t> open = {first};
    while (!open.empty()) {
      const DimDeclaration& dim = spec_.dims[open.back()];
      Known& known = of_dims_[open.back()];
      std::optional<std::size_t> needed;
      if (!known.is_done && IsGiven(dim)) {
        for (std::size_t other : DimsOf(*dim.definition)) {
          if (!of_dims_[other].is_done) needed = other;
        }
      }
      if (needed) {
        open.push_back(*needed);
        continue;
      }
      if (!known.is_done && IsGiven(dim)) known.value = Of(*dim.definition);
      known.is_done = true;
      open.pop_back();
    }
  }

  Number Of(const Formula& formula) {
    switch (formula.kind) {
      case Formula::Kind::kNumber:
        return formula.number;
      case Formula::Kind::kDim:
        return of_dims_[formula.index].value;
      case Formula::Kind::kSum:
      case Formula::Kind::kProduct:
        return Fold(formula);
      default:
        return std::nullopt;
    }
  }

  Number Fold(const Formula& formula) {
    Number result = Of(formula.operands.front());
    for (std::size_t i = 1; i < formula.operands.size(); ++i) {
      const Number next = Of(formula.operands[i]);
      result = result && next ? Apply(formula, formula.operators[i], *result, *next) : std::nullopt;
    }
    return result;
  }

  Number Apply(const Formula& formula, Formula::Operator op, std::int64_t left, std::int64_t right) {
    switch (op) {
      case Formula::Operator::kPlus:
        return CheckedAdd(left, right);
      case Formula::Operator::kMinus:
        return CheckedSubtract(left, right);
      case Formula::Operator::kTimes:
        return CheckedMultiply(left, right);
      case Formula::Operator::kDivide:
        if (right > 0 && left >= 0 && left % right == 0) return left / right;
        if (right >= 0 && left >= 0) Report(formula, left, right);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  void Report(const Formula& formula, std::int64_t left, std::int64_t right) {
    sink_.Report({.kind = DiagnosticKind::kInexactDivision,
                  .place = formula.range,
                  .message = right == 0 ? fmt::format("this divides {} by zero", left)
                                        : fmt::format("this divides {} by {}, and leaves {}, whatever the checkpoint",
                                                      left, right, left % right)});
  }

  const CheckedSpec& spec_;
  DiagnosticSink& sink_;
  std::vector<Known> of_dims_;
};

}  // namespace

void CheckConstants(const CheckedSpec& spec, DiagnosticSink& sink) {
  if (!sink.has_errors()) Constants(spec, sink).Run();
}

}  // namespace ucp
