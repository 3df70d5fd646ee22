#include "compiler/layout/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/layout/cut.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {

ShapeExpr ShapeExpr::Length(std::int64_t length) { return {.kind = Kind::kLength, .number = length}; }
ShapeExpr ShapeExpr::Product(std::vector<ShapeExpr> factors) {
  return {.kind = Kind::kProduct, .operands = std::move(factors)};
}
ShapeExpr ShapeExpr::Sum(std::vector<ShapeExpr> parts) { return {.kind = Kind::kSum, .operands = std::move(parts)}; }
ShapeExpr ShapeExpr::Pad(ShapeExpr inner, std::int64_t multiple) {
  return {.kind = Kind::kPad, .number = multiple, .operands = {std::move(inner)}};
}
ShapeExpr ShapeExpr::Cut(ShapeExpr inner, std::vector<std::string> axes) {
  return {.kind = Kind::kCut, .operands = {std::move(inner)}, .axes = std::move(axes)};
}

namespace {

// In `2 * (40@tp)` the parentheses are not needed, and without them it reads like a cut through both.
std::string Joined(const std::vector<ShapeExpr>& operands, const char* separator) {
  std::string text;
  for (const ShapeExpr& operand : operands) {
    const bool factor = separator[1] == '*';
    const bool later_cut = factor && &operand != &operands.front() && operand.kind == ShapeExpr::Kind::kCut &&
                           (&operand - 1)->kind != ShapeExpr::Kind::kCut;
    bool grouped =
        operand.kind == ShapeExpr::Kind::kSum || later_cut || (operand.kind == ShapeExpr::Kind::kProduct && factor);
    text +=
        fmt::format("{}{}", text.empty() ? "" : separator, grouped ? "(" + ToString(operand) + ")" : ToString(operand));
  }
  return text;
}

}  // namespace

std::string ToString(const ShapeExpr& expr) {
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
      return std::to_string(expr.number);
    case ShapeExpr::Kind::kProduct:
      return Joined(expr.operands, " * ");
    case ShapeExpr::Kind::kSum:
      return Joined(expr.operands, " + ");
    case ShapeExpr::Kind::kPad:
      return fmt::format("pad({}, {})", ToString(expr.operands[0]), expr.number);
    case ShapeExpr::Kind::kCut: {
      const ShapeExpr& inner = expr.operands[0];
      bool atom = inner.kind == ShapeExpr::Kind::kLength || inner.kind == ShapeExpr::Kind::kPad;
      std::string text = atom ? ToString(inner) : "(" + ToString(inner) + ")";
      std::string axes = expr.axes.size() == 1 ? expr.axes[0] : fmt::format("({})", fmt::join(expr.axes, ", "));
      return fmt::format("{}@{}{}", text, axes, RuleText(expr));
    }
  }
  UCP_UNREACHABLE();
}

llvm::Expected<std::int64_t> LogicalLength(const ShapeExpr& expr) {
  auto too_large = [&] {
    return Fail(ErrorCode::kUnsupported, "the length of `{}` does not fit in 63 bits", ToString(expr));
  };
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
      return expr.number;
    case ShapeExpr::Kind::kPad:
    case ShapeExpr::Kind::kCut:
      return LogicalLength(expr.operands[0]);
    case ShapeExpr::Kind::kProduct:
    case ShapeExpr::Kind::kSum: {
      bool product = expr.kind == ShapeExpr::Kind::kProduct;
      std::int64_t length = product ? 1 : 0;
      for (const ShapeExpr& operand : expr.operands) {
        UCP_ASSIGN_OR_RETURN(std::int64_t part, LogicalLength(operand));
        std::optional<std::int64_t> next = product ? CheckedMultiply(length, part) : CheckedAdd(length, part);
        if (!next) return too_large();
        length = *next;
      }
      return length;
    }
  }
  UCP_UNREACHABLE();
}

namespace {

class Selector {
 public:
  Selector(const Mesh& mesh, const Coordinate& coordinate) : mesh_(mesh), coordinate_(coordinate) {}

  llvm::Expected<Selection> Select(const ShapeExpr& expr) const {
    switch (expr.kind) {
      case ShapeExpr::Kind::kLength:
        return Selection::Whole(expr.number);
      case ShapeExpr::Kind::kProduct:
        return SelectProduct(expr);
      case ShapeExpr::Kind::kSum:
        return SelectSum(expr);
      case ShapeExpr::Kind::kPad:
        return SelectPad(expr);
      case ShapeExpr::Kind::kCut:
        return SelectCut(expr);
    }
    UCP_UNREACHABLE();
  }

 private:
  // Factors are taken from the right: `inner` is what the factors so far select, `inner_length` their logical length.
  llvm::Expected<Selection> SelectProduct(const ShapeExpr& expr) const {
    Selection inner = Selection::Whole(1);
    std::int64_t inner_length = 1;
    for (auto factor = expr.operands.rbegin(); factor != expr.operands.rend(); ++factor) {
      UCP_ASSIGN_OR_RETURN(Selection outer, Select(*factor));
      UCP_ASSIGN_OR_RETURN(inner, Nest(outer, inner, inner_length, expr));
      UCP_ASSIGN_OR_RETURN(std::int64_t length, LogicalLength(*factor));
      std::optional<std::int64_t> longer = CheckedMultiply(inner_length, length);
      if (!longer) return TooLong(expr);  // The whole fits only because a factor further left is 0.
      inner_length = *longer;
    }
    return inner;
  }

  // For each position i of `outer` and each j of `inner`: i * inner_length + j.
  static llvm::Expected<Selection> Nest(const Selection& outer, const Selection& inner, std::int64_t inner_length,
                                        const ShapeExpr& expr) {
    if (!CheckedMultiply(outer.local_length(), inner.local_length())) return TooLong(expr);
    Selection nested;
    if (inner.IsWhole(inner_length)) {  // Whole blocks: a run of outer positions stays one run.
      std::int64_t at = 0;
      for (const Run& run : outer.runs()) {
        nested.AppendPadding((run.local_begin - at) * inner_length);
        nested.Append(run.logical_begin * inner_length, run.length * inner_length);
        at = run.local_begin + run.length;
      }
      nested.AppendPadding((outer.local_length() - at) * inner_length);
      return nested;
    }
    std::int64_t runs = 0;
    if (__builtin_mul_overflow(outer.real_length(), static_cast<std::int64_t>(inner.runs().size()), &runs) ||
        runs > kMaxRuns) {
      return Fail(ErrorCode::kUnsupported, "`{}` would hold more than {} separate runs of positions", ToString(expr),
                  kMaxRuns);
    }
    std::int64_t at = 0;
    for (const Run& run : outer.runs()) {
      nested.AppendPadding((run.local_begin - at) * inner.local_length());
      for (std::int64_t i = 0; i < run.length; ++i)
        AppendShifted(nested, inner, (run.logical_begin + i) * inner_length);
      at = run.local_begin + run.length;
    }
    nested.AppendPadding((outer.local_length() - at) * inner.local_length());
    return nested;
  }

  llvm::Expected<Selection> SelectSum(const ShapeExpr& expr) const {
    Selection sum;
    std::int64_t offset = 0;
    for (const ShapeExpr& part : expr.operands) {
      UCP_ASSIGN_OR_RETURN(Selection selection, Select(part));
      if (!CheckedAdd(sum.local_length(), selection.local_length())) return TooLong(expr);
      AppendShifted(sum, selection, offset);
      UCP_ASSIGN_OR_RETURN(std::int64_t length, LogicalLength(part));
      offset += length;
    }
    return sum;
  }

  llvm::Expected<Selection> SelectPad(const ShapeExpr& expr) const {
    const ShapeExpr& inner = expr.operands[0];
    if (!CuttingAxes(inner).empty()) {
      return Fail(ErrorCode::kSpec, "`{}` pads what is cut already; cut the padded whole instead", ToString(expr));
    }
    UCP_ASSIGN_OR_RETURN(Selection selection, Select(inner));
    if (expr.number <= 0) return Fail(ErrorCode::kSpec, "`{}` pads to a multiple of {}", ToString(expr), expr.number);
    std::optional<std::int64_t> padded =
        CheckedMultiply(CeilDivide(selection.local_length(), expr.number), expr.number);
    if (!padded) return TooLong(expr);
    selection.AppendPadding(*padded - selection.local_length());
    return selection;
  }

  llvm::Expected<Selection> SelectCut(const ShapeExpr& expr) const {
    UCP_ASSIGN_OR_RETURN(Selection inner, Select(expr.operands[0]));
    std::int64_t degree = 1;
    std::int64_t index = 0;
    for (const std::string& axis : expr.axes) {
      std::int64_t size = mesh_.Size(axis);
      std::int64_t at = coordinate_.At(axis);
      if (at < 0 || at >= size) {
        return Fail(ErrorCode::kBadData, "`{}` is cut over {} ranks of {}, and there is a rank at {}", ToString(expr),
                    size, axis, ToString(coordinate_));
      }
      std::optional<std::int64_t> product = CheckedMultiply(degree, size);
      if (!product) return TooLong(expr);
      degree = *product;
      index = index * size + at;
    }
    UCP_ASSIGN_OR_RETURN(std::vector<PlaceRange> part, PartOf(expr, inner.local_length(), degree, index));
    Selection selection;
    for (const PlaceRange& range : part) AppendShifted(selection, inner.Slice(range.begin, range.end), 0);
    return selection;
  }

  static llvm::Error TooLong(const ShapeExpr& expr) {
    return Fail(ErrorCode::kUnsupported, "the places of `{}`, padding included, do not fit in 63 bits", ToString(expr));
  }

  static void AppendShifted(Selection& all, const Selection& part, std::int64_t offset) {
    std::int64_t at = 0;
    for (const Run& run : part.runs()) {
      all.AppendPadding(run.local_begin - at);
      all.Append(offset + run.logical_begin, run.length);
      at = run.local_begin + run.length;
    }
    all.AppendPadding(part.local_length() - at);
  }

  const Mesh& mesh_;
  const Coordinate& coordinate_;
};

void CollectAxes(const ShapeExpr& expr, std::vector<std::string>& axes) {
  for (const std::string& axis : expr.axes) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  }
  for (const ShapeExpr& operand : expr.operands) CollectAxes(operand, axes);
}

}  // namespace

llvm::Expected<Selection> Select(const ShapeExpr& expr, const Mesh& mesh, const Coordinate& coordinate) {
  UCP_RETURN_IF_ERROR(LogicalLength(expr).takeError());
  return Selector(mesh, coordinate).Select(expr);
}

std::vector<std::string> CuttingAxes(const ShapeExpr& expr) {
  std::vector<std::string> axes;
  CollectAxes(expr, axes);
  return axes;
}

}  // namespace ucp
