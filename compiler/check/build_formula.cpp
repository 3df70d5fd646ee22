// From a tree's expression to a formula: names are looked up, and what has no meaning at this place is refused.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/scope.h"
#include "compiler/layout/mesh.h"
#include "compiler/support/check.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

using Kind = Formula::Kind;
using Operator = Formula::Operator;

class FormulaBuilder {
 public:
  FormulaBuilder(Role role, const Scope& scope, const std::vector<Counter>& counters, DiagnosticSink& sink)
      : role_(role), scope_(scope), counters_(counters), sink_(sink) {}

  std::optional<Formula> Build(const ast::Expr& expr) {
    auto formula = std::visit([&](const auto& node) { return BuildNode(expr, node); }, expr.node);
    if (formula) formula->parenthesized = expr.parenthesized;
    return formula;
  }

 private:
  // Where the counters of the name around it have values.
  bool MaySpeakOfCounters() const {
    switch (role_) {
      case Role::kPrinted:
      case Role::kCount:
      case Role::kLength:
      case Role::kMultiple:
      case Role::kCutNumber:
      case Role::kCompared:
        return true;
      case Role::kDimValue:
      case Role::kStage:
        return false;
    }
    UCP_UNREACHABLE();
  }

  static Formula Make(Kind kind, const ast::Expr& expr) {
    Formula formula;
    formula.kind = kind;
    formula.range = expr.range;
    return formula;
  }

  std::nullopt_t Refuse(SourceRange range, std::string message) {
    sink_.Report({.kind = DiagnosticKind::kBadExpression, .place = range, .message = std::move(message)});
    return std::nullopt;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Number& node) {
    Formula formula = Make(Kind::kNumber, expr);
    formula.number = node.value;
    return formula;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Name& node) {
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      if (counters_[i].name != node.text) continue;
      if (!MaySpeakOfCounters())
        return Refuse(expr.range,
                      fmt::format("`{}` is a counter, and this number is the same for all its values", node.text));
      Formula formula = Make(Kind::kCounter, expr);
      formula.index = i;
      return formula;
    }
    if (auto found = scope_.dims.find(node.text); found != scope_.dims.end()) {
      Formula formula = Make(Kind::kDim, expr);
      formula.index = found->second;
      return formula;
    }
    if (IsKnownAxis(node.text)) return BuildAxisSize(expr, node.text);
    if (scope_.facts.contains(node.text)) {
      return Refuse(expr.range,
                    fmt::format("`{}` is a fact, and a number stands here: declare it with `dim`", node.text));
    }
    return RefuseUnknown(expr.range, node.text);
  }

  // A length must not depend on the mesh, or a checkpoint could not be cut differently: only padding may.
  std::optional<Formula> BuildAxisSize(const ast::Expr& expr, const std::string& axis) {
    if (!scope_.CheckAxis({expr.range, axis}, sink_)) return std::nullopt;
    if (role_ != Role::kMultiple) {
      return Refuse(
          expr.range,
          fmt::format("`{}` is the size of a mesh axis, and only the multiple of `pad` and a `scale` may depend on the "
                      "mesh",
                      axis));
    }
    Formula formula = Make(Kind::kAxisSize, expr);
    formula.axis = axis;
    return formula;
  }

  std::nullopt_t RefuseUnknown(SourceRange range, const std::string& name) {
    Diagnostic diagnostic{
        .kind = DiagnosticKind::kUnknownName, .place = range, .message = fmt::format("there is no dim `{}`", name)};
    std::vector<std::string> candidates = scope_.dim_names;
    for (const Counter& counter : counters_) candidates.push_back(counter.name);
    if (auto nearest = NearestWord(name, candidates)) diagnostic.hint = fmt::format("did you mean `{}`?", *nearest);
    sink_.Report(std::move(diagnostic));
    return std::nullopt;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Sum& node) {
    Formula formula = Make(Kind::kSum, expr);
    bool complete = true;
    for (const ast::Term& term : node.terms) {
      auto operand = Build(term.expr);
      complete = complete && operand && (!term.label || AddLabel(*term.label, *operand));
      if (!complete) continue;
      if (term.label && node.terms.size() == 1) return operand;
      formula.operators.push_back(term.op == ast::SumOperator::kPlus ? Operator::kPlus : Operator::kMinus);
      formula.operands.push_back(std::move(*operand));
    }
    if (!complete) return std::nullopt;
    return CheckSum(std::move(formula));
  }

  bool AddLabel(const ast::Identifier& label, Formula& operand) {
    if (!scope_.takes_labels || role_ != Role::kLength) {
      Refuse(label.range, fmt::format("the label `{}:` names a part of a model, and stands only in the dimensions of "
                                      "one or of its layouts",
                                      label.text));
      return false;
    }
    if (!operand.label.empty()) {
      Refuse(label.range, fmt::format("these places have the label `{}:` already", operand.label));
      return false;
    }
    operand.label = label.text;
    operand.label_range = label.range;
    return true;
  }

  // A subtraction from a sum would have to say which positions: only plain numbers are subtracted.
  std::optional<Formula> CheckSum(Formula formula) {
    bool subtracts = std::count(formula.operators.begin(), formula.operators.end(), Operator::kMinus) != 0;
    if (!subtracts || !HasStructure(formula)) return formula;
    return Refuse(
        formula.range,
        "a difference is a number, and parts of it cannot be cut or padded; put the difference in parentheses");
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Product& node) {
    Formula formula = Make(Kind::kProduct, expr);
    bool complete = true;
    for (const ast::Factor& factor : node.factors) {
      auto operand = Build(factor.expr);
      complete = complete && operand;
      if (!complete) continue;
      formula.operators.push_back(factor.op == ast::ProductOperator::kTimes    ? Operator::kTimes
                                  : factor.op == ast::ProductOperator::kDivide ? Operator::kDivide
                                                                               : Operator::kModulo);
      formula.operands.push_back(std::move(*operand));
    }
    if (!complete) return std::nullopt;
    return CheckProduct(std::move(formula));
  }

  // `a / b * c@tp` is the number a / b, and then a cut factor. `c@tp * a / b` would divide what is cut.
  std::optional<Formula> CheckProduct(Formula formula) {
    bool structured = false;
    for (std::size_t i = 0; i < formula.operands.size(); ++i) {
      structured = structured || HasStructure(formula.operands[i]);
      if (!structured || formula.operators[i] == Operator::kTimes) continue;
      return Refuse(formula.operands[i].range,
                    "only numbers are divided, and what stands before or behind this division is cut or padded; "
                    "put the division in parentheses");
    }
    return formula;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Pad& node) {
    if (role_ != Role::kLength) return Refuse(expr.range, "padding makes sense in the shape of a tensor only");
    auto length = Build(*node.length);
    auto multiple = FormulaBuilder(Role::kMultiple, scope_, counters_, sink_).Build(*node.multiple);
    if (!length || !multiple) return std::nullopt;
    Formula formula = Make(Kind::kPad, expr);
    formula.operands.push_back(std::move(*length));
    formula.operands.push_back(std::move(*multiple));
    return formula;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Cut& node) {
    if (role_ == Role::kCount)
      return Refuse(node.cut_range, "only the whole count of a capture can be cut; put it in parentheses");
    if (role_ != Role::kLength)
      return Refuse(node.cut_range, "only a dimension or a capture can be cut, and this is a number");
    Formula formula = Make(Kind::kCut, expr);
    formula.cut_range = node.cut_range;
    bool complete = BuildCutRule(node, scope_, counters_, formula, sink_);
    auto operand = Build(*node.operand);
    if (!operand || !complete) return std::nullopt;
    formula.operands.push_back(std::move(*operand));
    return formula;
  }

  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Index& node) {
    auto fact = FindFact(node.list, scope_, sink_);
    auto position = BuildPosition(*node.index);
    if (!fact || !position) return std::nullopt;
    Formula formula = Make(Kind::kElement, expr);
    formula.index = *fact;
    formula.operands.push_back(std::move(*position));
    return formula;
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Length& node) {
    return BuildOfList(expr, *node.list, Kind::kLength, "`length` counts a list that is a fact, or an element of one");
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Count& node) {
    auto formula = BuildOfList(expr, *node.list, Kind::kCount,
                               "`count` looks through a list that is a fact, or an element of one");
    const auto* text = std::get_if<ast::Text>(&node.counted->node);
    if (text == nullptr) {
      return Refuse(node.counted->range, "`count` counts the elements that are one text, such as \"moe\"");
    }
    if (formula) formula->text = text->value;
    return formula;
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Ceil& node) {
    Formula formula = Make(Kind::kCeil, expr);
    for (const ast::Expr* argument : {&*node.number, &*node.multiple}) {
      auto operand = Build(*argument);
      if (!operand) return std::nullopt;
      if (HasStructure(*operand)) return Refuse(operand->range, "`ceil` rounds a number, and this is cut or padded");
      formula.operands.push_back(std::move(*operand));
    }
    return formula;
  }
  std::optional<Formula> BuildOfList(const ast::Expr& expr, const ast::Expr& list, Kind kind,
                                     const std::string& otherwise) {
    const auto* name = std::get_if<ast::Name>(&list.node);
    const auto* index = std::get_if<ast::Index>(&list.node);
    if (name == nullptr && index == nullptr) return Refuse(list.range, otherwise);
    Formula formula = Make(kind, expr);
    auto fact = FindFact(index != nullptr ? index->list : ast::Identifier{list.range, name->text}, scope_, sink_);
    if (index != nullptr) {
      auto position = BuildPosition(*index->index);
      if (!position) return std::nullopt;
      formula.operands.push_back(std::move(*position));
    }
    if (!fact) return std::nullopt;
    formula.index = *fact;
    return formula;
  }
  // A place in a list. A dim is the same for all counters, and so is its place.
  std::optional<Formula> BuildPosition(const ast::Expr& expr) {
    Role role = MaySpeakOfCounters() ? Role::kCompared : role_;
    return FormulaBuilder(role, scope_, counters_, sink_).Build(expr);
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Call& node) {
    return Refuse(expr.range,
                  fmt::format("there is no function `{}`; the language has `pad`, `ceil`, `length` and `count`",
                              node.function.text));
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::List&) {
    return Refuse(expr.range, "a list stands where a number is needed");
  }
  std::optional<Formula> BuildNode(const ast::Expr& expr, const ast::Text&) {
    return Refuse(expr.range, "a text stands where a number is needed");
  }
  template <typename Condition>
  std::optional<Formula> BuildNode(const ast::Expr& expr, const Condition&) {
    return Refuse(expr.range, "a condition stands where a number is needed");
  }

  Role role_;
  const Scope& scope_;
  const std::vector<Counter>& counters_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<Formula> BuildFormula(const ast::Expr& expr, Role role, const Scope& scope,
                                    const std::vector<Counter>& counters, DiagnosticSink& sink) {
  return FormulaBuilder(role, scope, counters, sink).Build(expr);
}

}  // namespace ucp
